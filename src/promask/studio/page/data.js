// The data: a built-in set, or files that are sent to the server and become a folder there.
const source = { data: "brain", upload: null, name: "brain", reading: {}, description: null, asked: 0 };
const TEXTS = ["array", "axes", "readout"];

function chooseBuiltIn(name, reading) {
  Object.assign(source, { data: name, upload: null, name });
  at("own").hidden = true;
  return chooseReading(reading);
}

// Fill in how the files are read, and look at them in this way.
function chooseReading(reading = {}) {
  for (const name of TEXTS) at(name).value = reading[name] || "";
  at("each_frame").checked = Boolean(reading.each_frame);
  return describe();
}

async function describe() {
  if (!source.upload && !source.data) return; // files are on their way
  const turn = ++source.asked;
  const reading = Object.fromEntries(TEXTS.map((name) => [name, at(name).value]).filter(([, value]) => value));
  for (const name of ["each_frame", "skip_bad"]) if (at(name).checked) reading[name] = true;
  Object.assign(source, { reading, description: null });
  remember("source", source.upload ? { upload: source.upload, name: source.name, reading } : { data: source.data, reading });
  at("reading").hidden = !source.upload;
  at("data-error").textContent = "";
  at("choices").replaceChildren();
  at("about-data").textContent = "Looking at the data …";
  document.dispatchEvent(new Event("source"));
  try {
    const path = source.upload ? `/api/uploads/${source.upload}` : `/api/data/${encodeURIComponent(source.data)}`;
    const found = await call("GET", `${path}?${new URLSearchParams(reading)}`);
    if (turn !== source.asked) return; // something else was chosen since
    if (found.question === null) source.description = found;
    showDescription(found);
  } catch (error) {
    if (turn !== source.asked) return;
    failData(error);
  }
  document.dispatchEvent(new Event("source"));
}

function failData(error) {
  clearData();
  at("data-error").textContent = error.message;
}

function clearData() {
  at("about-data").textContent = at("data-error").textContent = "";
  at("choices").replaceChildren();
  at("each-frame-row").hidden = true;
  showPicture(null);
  showFacts([]);
}

// What was found in the data, or the ways to read them, to choose from.
function showDescription(found) {
  at("about-data").textContent = found.sentence || "This can be read in several ways: choose one.";
  at("choices").replaceChildren(...found.choices.map(choiceButton));
  at("each-frame-row").hidden = !(found.frames > 1);
  showPicture(found.picture);
  showFacts(found.facts);
  if (at("going").hidden) show("data");
}

function choiceButton({ argument, value, words }) {
  const textContent = argument === "array" ? words : `${value}: ${words}`;
  const button = Object.assign(document.createElement("button"), { type: "button", textContent });
  button.addEventListener("click", () => chooseReading({ ...source.reading, [argument]: value }));
  return button;
}

function showPicture(picture) {
  at("picture").hidden = !picture;
  at("caption").textContent = picture ? `The sample in the middle of ${source.name}.` : "";
  at("picture").alt = at("caption").textContent;
  if (picture) at("picture").src = picture;
}

// A fact without a heading belongs to the one before it.
function showFacts(facts) {
  const line = (kind, textContent) => Object.assign(document.createElement(kind), { textContent });
  at("facts").replaceChildren(...facts.flatMap(([heading, text]) => [...(heading ? [line("dt", heading)] : []), line("dd", text)]));
}

async function takeFiles(files) {
  files = [...files];
  if (!files.length) return;
  const turn = ++source.asked;
  Object.assign(source, { data: null, upload: null, description: null });
  clearData();
  at("own").hidden = false;
  at("own").textContent = files.length === 1 ? files[0].name : `${files.length} files of yours`;
  at("data").value = "";
  document.dispatchEvent(new Event("source"));
  try {
    checkFiles(files, known.endings);
    const { upload } = await call("POST", "/api/uploads");
    for (const [n, file] of files.entries()) {
      at("about-data").textContent = `Sending ${file.name} (${n + 1} of ${files.length}) …`;
      await call("PUT", `/api/uploads/${upload}/${encodeURIComponent(file.name)}`, file);
      if (turn !== source.asked) return;
    }
    Object.assign(source, { upload, name: at("own").textContent });
  } catch (error) {
    if (turn === source.asked) failData(error);
    return;
  }
  await chooseReading();
}

// What the server would refuse is not sent at all.
function checkFiles(files, endings) {
  const size = files.reduce((sum, file) => sum + file.size, 0);
  if (files.length > known.mostFiles) throw new Error(`These are more than ${known.mostFiles} files: use promask learn for them.`);
  if (size > known.limit) throw new Error(`These are ${(size / 1e6).toFixed(0)} MB, more than the ${known.megabytes} MB of this studio: start it with a larger --limit, or use promask learn.`);
  for (const file of files) {
    if (!endings.some((ending) => file.name.toLowerCase().endsWith(ending))) {
      throw new Error(`${file.name} is not a file that promask reads: its name must end with ${endings.join(", ")}.`);
    }
  }
}

// Of a folder that is dropped, the files that promask reads.
async function filesIn(entry) {
  if (entry.isFile) return [await new Promise((done, fail) => entry.file(done, fail))];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((done, fail) => reader.readEntries(done, fail));
    if (!some.length) break;
    for (const inner of some) found.push(...await filesIn(inner));
  }
  return found.filter((file) => known.endings.some((ending) => file.name.toLowerCase().endsWith(ending)));
}

async function takeDropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return takeFiles(transfer.files);
  const found = (await Promise.all(entries.map(filesIn))).flat();
  if (!found.length) return failData(new Error("The folder holds no file that promask reads."));
  return takeFiles(found);
}

// A mask of one's own is an upload of its own; without files, it is taken back.
const ownMask = { upload: null, turn: 0, sending: false };

async function takeMask(files) {
  const turn = ++ownMask.turn;
  Object.assign(ownMask, { upload: null, sending: files.length > 0 });
  at("about-mask").textContent = at("mask-error").textContent = "";
  at("mask-note").hidden = true;
  document.dispatchEvent(new Event("source"));
  if (!files.length) return;
  try {
    checkFiles(files, known.maskEndings);
    const { upload } = await call("POST", "/api/uploads");
    for (const file of files) await call("PUT", `/api/uploads/${upload}/${encodeURIComponent(file.name)}`, file);
    const about = await call("GET", `/api/uploads/${upload}/mask`);
    if (turn !== ownMask.turn) return; // something else was chosen since
    ownMask.upload = upload;
    at("mask-note").hidden = false;
    at("about-mask").textContent = `${about.shape.join(" × ")}, ×${Number(about.acceleration.toPrecision(4))}`;
  } catch (error) {
    if (turn !== ownMask.turn) return;
    at("own-mask").value = "";
    at("mask-error").textContent = error.message;
  }
  ownMask.sending = false;
  document.dispatchEvent(new Event("source"));
}

at("own-mask").addEventListener("change", () => takeMask([...at("own-mask").files]));
at("remove-mask").addEventListener("click", () => {
  at("own-mask").value = "";
  takeMask([]);
});
at("data").addEventListener("change", () => chooseBuiltIn(at("data").value));
for (const name of ["array", "axes"]) {
  at(name).addEventListener("change", () => { at("each_frame").checked = false; }); // there may be none now
  at(name).addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // it does not begin to learn
    at(name).blur();
  });
}
for (const name of [...TEXTS, "each_frame", "skip_bad"]) at(name).addEventListener("change", describe);
at("files").addEventListener("change", () => {
  takeFiles(at("files").files);
  at("files").value = ""; // the same file may be chosen again
});
addEventListener("dragover", (event) => {
  event.preventDefault();
  at("dropping").hidden = false;
});
addEventListener("dragleave", (event) => { if (!event.relatedTarget) at("dropping").hidden = true; });
addEventListener("drop", (event) => {
  event.preventDefault();
  at("dropping").hidden = true;
  takeDropped(event.dataTransfer);
});
