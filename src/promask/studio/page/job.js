// A job: asked for, watched, cancelled, and what comes of it.
const job = { id: null, running: false, events: null };
const PLAIN = { energy: "largest energy", centre: "the central block", mse: "what is learned for the squared error", start: "the start", "zero-filled": "what is learned for zero-filling", uniform: "uniform spokes" };

at("settings").addEventListener("submit", async (event) => {
  event.preventDefault();
  await check();
  if (at("learn").disabled) return;
  job.running = true;
  mayLearn();
  try {
    begin(await call("POST", "/api/jobs", wish()));
  } catch (error) {
    job.running = false;
    at("settings-error").textContent = error.message;
    mayLearn();
  }
});

at("cancel").addEventListener("click", async () => {
  at("cancel").disabled = true;
  try {
    await call("DELETE", `/api/jobs/${job.id}`);
  } catch (error) {
    at("job-error").textContent = error.message;
  }
});

function begin(news) {
  Object.assign(job, { id: news.id, running: true });
  remember("job", news.id);
  curve.losses = [];
  drawCurve();
  plane.values = null;
  at("canvas").getContext("2d").clearRect(0, 0, at("canvas").width, at("canvas").height);
  at("down").textContent = at("across").textContent = "";
  for (const name of ["step", "loss", "budget", "left"]) at(`number-${name}`).textContent = "–";
  at("going").hidden = at("cancel").hidden = false;
  at("cancel").disabled = false;
  at("downloads").hidden = true;
  at("tab-mask").disabled = false;
  at("tab-report").disabled = true;
  at("report").removeAttribute("src");
  show("mask");
  if (at("view").getBoundingClientRect().top > innerHeight / 2) at("view").scrollIntoView();
  take(news);
  if (job.running) watch();
}

function watch() {
  const events = new EventSource(address(`/api/jobs/${job.id}/events`));
  job.events = events;
  events.onmessage = (event) => take(JSON.parse(event.data));
  events.onerror = () => { // the browser connects again by itself, unless the studio refuses
    const gone = "The studio does not answer: is promask studio still running?";
    if (events.readyState === EventSource.CLOSED) end(gone);
    else at("job-error").textContent = gone;
  };
}

function end(error) {
  job.running = false;
  if (job.events) job.events.close();
  at("cancel").hidden = true;
  at("job-error").textContent = error || "";
  mayLearn();
}

function take(news) {
  addLosses(news.after, news.losses);
  if (news.units && news.free) drawUnits(news.units, news);
  showNumbers(news);
  at("state").textContent = stateOf(news);
  at("warnings").replaceChildren(...news.warnings.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  at("job-error").textContent = "";
  const bar = at("progress");
  bar.hidden = !["queued", "running"].includes(news.state);
  if (news.phase === "learning") bar.value = news.done / news.total;
  else if (news.phase === "measuring" && news.masks) bar.value = news.masks.done / news.masks.total;
  else if (news.state === "running") bar.removeAttribute("value");
  else bar.value = 0;
  if (news.state === "done") finish(news);
  if (news.state === "failed") end(news.error);
  if (news.state === "cancelled") end();
  if (news.state === "failed" || news.state === "cancelled") remember("job", null);
}

function showNumbers(news) {
  if (!news.total) return;
  const last = curve.losses[curve.losses.length - 1];
  const left = (news.seconds / Math.max(1, news.done - 1)) * (news.total - news.done);
  at("number-step").textContent = `${news.done} of ${news.total}`;
  at("number-loss").textContent = last === undefined ? "–" : last.toPrecision(3);
  at("number-budget").textContent = Math.round(news.budget);
  at("number-left").textContent = news.state === "running" && news.phase === "learning" && news.done > 1 ? `≤ ${duration(left)}` : "–";
}

function duration(seconds) {
  if (seconds < 100) return `${Math.ceil(seconds)} s`;
  return seconds < 6000 ? `${Math.ceil(seconds / 60)} min` : `${Math.ceil(seconds / 3600)} h`;
}

function stateOf(news) {
  if (news.state === "queued") return `Waiting: ${news.position === 1 ? "this job is the next" : `${news.position - 1} before this one`}; others are at work.`;
  if (news.state === "cancelled") return "Cancelled.";
  if (news.state === "failed") return "It did not work.";
  if (news.state === "done") return sentence(news.summary);
  if (news.phase === "measuring") return `Comparing the mask with others${news.masks ? `: ${news.masks.done} of ${news.masks.total}` : ""} …`;
  if (news.phase === "learning") return "Learning …";
  return news.files ? `Reading files: ${news.files.done} of ${news.files.total} …` : "Reading the data …";
}

function sentence(found) {
  const { psnr, psnr_moving, ssim, images } = found.evaluation;
  const moving = psnr_moving === null ? "" : ` (${psnr_moving.toFixed(2)} dB in what moves)`;
  const quality = [psnr === null ? "" : `PSNR ${psnr.toFixed(2)} dB${moving}`, ssim === null ? "" : `SSIM ${ssim.toFixed(4)}`].filter(Boolean);
  const samples = (number) => (found.series ? `${number} series` : count(number, "image"));
  const on = `${samples(images)}${found.held_out ? ", held out" : ", the same that it was learned from"}`;
  const stopped = found.stopped === null ? "" : `, and stopped after ${found.stopped} of ${found.steps} steps: the mask no longer changed`;
  const plain = found.plain ? ` The mask is that of ${PLAIN[found.plain] || found.plain}: what was learned is not better.` : "";
  return `×${Number(found.acceleration.toPrecision(4))}: ${quality.join(", ")} (${on}). Learned from ${samples(found.images)} in ${found.seconds.toFixed(1)} s${stopped}.${plain}`;
}

function finish(news) {
  end();
  at("downloads").hidden = false;
  at("tab-report").disabled = false;
  showReport();
  link();
  show("report");
}

function showReport() {
  if (!job.id || at("downloads").hidden) return;
  at("report").src = address(`/api/jobs/${job.id}/report.html`, { theme: theme() });
}

function link() {
  at("download-mask").href = address(`/api/jobs/${job.id}/mask`, { to: at("format").value });
  at("download-run").href = address(`/api/jobs/${job.id}/run.zip`);
  at("open-report").href = address(`/api/jobs/${job.id}/report.html`);
}

at("format").addEventListener("change", link);
document.addEventListener("theme", showReport);

// Where this tab was before it was loaded again.
(async () => {
  const kept = remembered("source");
  if (kept && kept.upload) {
    Object.assign(source, { data: null, upload: kept.upload, name: kept.name });
    at("own").hidden = false;
    at("own").textContent = kept.name;
    at("data").value = "";
    chooseReading(kept.reading);
  } else {
    at("data").value = (kept && kept.data) || "brain";
    chooseBuiltIn(at("data").value, kept ? kept.reading : {});
  }
  const id = remembered("job");
  if (!id) return;
  try {
    begin(await call("GET", `/api/jobs/${id}`));
  } catch {
    remember("job", null);
  }
})();
