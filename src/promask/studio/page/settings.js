// The settings: what will be asked for, checked by the server at every change.
const LEAST = 2, MOST = 32;
const wanted = (name) => document.querySelector(`input[name=${name}]:checked`).value;

// Fields that are left empty stay as they are on the command line.
function wish() {
  const result = { ...(source.upload ? { upload: source.upload } : { data: source.data }), ...source.reading };
  if (ownMask.upload) result.mask = ownMask.upload;
  if (spokesWanted()) result.spokes = at("spokes").valueAsNumber;
  else result.acceleration = at("acceleration").valueAsNumber;
  const axis = linesWanted() ? at("axis").value : "";
  if (axis !== "") result.axis = axis.startsWith("k") ? axis : Number(axis);
  const suggested = source.description && wanted("pattern") === source.description.pattern;
  if (axis !== "" || (chosen.pattern && !suggested)) result.pattern = wanted("pattern");
  if (wanted("loss") !== usualLoss()) result.loss = wanted("loss");
  result.recon = at("recon").value;
  if (ownForEachFrame()) {
    if (at("equal_per").value !== "") result.equal_per = at("equal_per").value;
    if (at("period").value !== "") result.period = Number(at("period").value);
  }
  for (const name of ["coils", "noise", "centre", "steps", "seed"]) {
    if (at(name).value !== "") result[name] = at(name).valueAsNumber;
  }
  for (const name of ["acs_shape", "shutter"]) {
    if (at(name).value !== "") result[name] = at(name).value;
  }
  return result;
}

// Until somebody chooses, pattern, reconstruction and loss are those that the data suggest: lines, if their readout
// is known; of series, the lines of each frame, reconstructed together.
const chosen = { pattern: false, recon: false, loss: false, series: false };
const tick = (name, value) => { document.querySelector(`input[name=${name}][value="${value}"]`).checked = true; };
const linesWanted = () => ["1d", "kt"].includes(wanted("pattern"));
const spokesWanted = () => /radial|spiral/.test(wanted("pattern"));
const rotationNoun = () => (wanted("pattern").includes("spiral") ? "interleaves" : "spokes");
const ownForEachFrame = () => wanted("pattern").startsWith("kt");
const usualLoss = () => (known.temporal.includes(at("recon").value) ? "motion" : "mse");

function followData() {
  const about = source.description;
  if (about) {
    if (about.series !== chosen.series) Object.assign(chosen, { pattern: false, recon: false, loss: false, series: about.series });
    for (const element of document.querySelectorAll(".of-series")) element.hidden = !about.series;
    for (const option of at("recon").options) option.hidden = !about.series && known.temporal.includes(option.value);
    if (!chosen.pattern) tick("pattern", about.pattern);
    offerAxes(about);
    if (about.series) offerFrames(about.frames);
  }
  followSettings();
}

// What depends on other settings.
function followSettings() {
  const about = source.description;
  if (!chosen.recon && about) at("recon").value = spokesWanted() && !about.series ? "gridding" : about.recon;
  for (const element of document.querySelectorAll(".of-acceleration")) element.hidden = spokesWanted();
  for (const element of document.querySelectorAll(".of-spokes")) element.hidden = !spokesWanted();
  document.querySelector("label[for=spokes]").textContent = `Number of ${rotationNoun()}`;
  if (!chosen.loss) tick("loss", usualLoss());
  at("axis-row").hidden = !linesWanted();
  for (const row of document.querySelectorAll(".of-frames")) row.hidden = !ownForEachFrame();
}

// Lines may undersample any direction but the readout; usually the last one, and of series not kx.
function offerAxes(about) {
  const encoded = [...about.shape.keys()].filter((axis) => about.directions[axis] !== about.readout).reverse();
  if (about.series) encoded.sort((one, other) => (about.directions[one] === "kx") - (about.directions[other] === "kx"));
  offer("axis", encoded.map((axis, place) => {
    const name = about.directions[axis] || `axis ${axis}`;
    const run = about.shape.length === 2 ? `: lines run ${axis ? "down" : "across"}` : "";
    return new Option(`${name}${run}`, place ? about.directions[axis] || axis : "");
  }));
}

// Frames can be taken together, and repeated, in numbers that divide all.
function offerFrames(frames) {
  const divisors = [...Array(frames).keys()].filter((number) => number > 1 && frames % number === 0);
  const together = divisors.map((number) => new Option(`in every ${number} frames`, `frame=${number}`));
  offer("equal_per", [new Option("in every frame", ""), ...together, new Option("in all frames together", "none")]);
  offer("period", [new Option("never", ""), ...divisors.map((number) => new Option(`after ${number} frames`, number))]);
}

// Other options of a choice, of which the present one stays chosen if it can.
function offer(id, options) {
  const before = at(id).value;
  at(id).replaceChildren(...options);
  at(id).value = before;
  if (at(id).selectedIndex < 0) at(id).selectedIndex = 0;
}

const checking = { timer: 0, turn: 0 };

function checkSoon() {
  followSettings();
  clearTimeout(checking.timer);
  checking.timer = setTimeout(check, 80);
}

async function check() {
  const turn = ++checking.turn;
  if (!(source.upload || source.data) || at("data-error").textContent) {
    at("budget").textContent = at("settings-error").textContent = "";
    showCommand("");
    mayLearn();
    return;
  }
  let found = { command: "", budget: null }, problem = "";
  try {
    found = await call("POST", "/api/check", wish());
  } catch (error) {
    problem = error.message;
  }
  if (turn !== checking.turn) return;
  at("settings-error").textContent = problem;
  showCommand(found.command);
  at("budget").textContent = found.budget ? budgetSentence(found.budget) : "";
  mayLearn();
}

function budgetSentence({ acquired, units, frames, complete }) {
  if (complete) {
    const many = frames ? `${acquired / frames} of ${units / frames} ${rotationNoun()} of every frame` : `${acquired} of ${units} ${rotationNoun()}`;
    return `${many} are acquired; a complete scan has ${complete}.`;
  }
  const noun = linesWanted() ? "line" : "location";
  if (!frames) return `${acquired} of ${count(units, noun)} are acquired.`;
  if (at("equal_per").value === "") return `${acquired / frames} of ${count(units / frames, noun)} of every frame are acquired.`;
  return `${acquired} of ${count(units, noun)} of ${frames} frames are acquired.`;
}

// An option and its value stay on one line, and so does the beginning of a second command.
function showCommand(text) {
  const pieces = text.split(/ (?=--|&&)/).map((piece) => Object.assign(document.createElement("span"), { textContent: piece }));
  at("command").replaceChildren(...pieces.flatMap((piece, n) => (n ? [" ", piece] : [piece])));
}

function mayLearn() {
  at("learn").disabled = !source.description || ownMask.sending || at("settings-error").textContent !== "" || job.running;
}

const toSlider = (value) => Math.log(value / LEAST) / Math.log(MOST / LEAST);
const fromSlider = (place) => LEAST * (MOST / LEAST) ** place;
const rounded = (value) => (value < 10 ? Math.round(value * 10) / 10 : Math.round(value));

at("acceleration-slider").addEventListener("input", () => {
  at("acceleration").value = rounded(fromSlider(at("acceleration-slider").valueAsNumber));
  checkSoon();
});
at("acceleration").addEventListener("input", () => {
  at("acceleration-slider").value = toSlider(at("acceleration").valueAsNumber || LEAST);
});
at("settings").addEventListener("input", checkSoon);
document.addEventListener("source", () => { followData(); check(); });
for (const name of ["pattern", "loss"]) { // before the form hears of it, and follows
  for (const button of document.querySelectorAll(`input[name=${name}]`)) button.addEventListener("input", () => { chosen[name] = true; });
}
at("recon").addEventListener("input", () => { chosen.recon = true; });
at("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(at("command").textContent);
    at("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(at("command"));
    at("copy").textContent = "Ctrl-C";
  }
  setTimeout(() => { at("copy").textContent = "Copy"; }, 1500);
});
