// The loss of every step so far.
const curve = { losses: [] };

function addLosses(after, losses) {
  curve.losses = [...curve.losses.slice(0, after), ...losses];
  drawCurve();
}

function drawCurve() {
  const { losses } = curve;
  const [line, top, bottom] = ["polyline", ".top", ".bottom"].map((name) => at("curve").querySelector(name));
  const finite = losses.filter(Number.isFinite);
  if (finite.length < 2) {
    line.setAttribute("points", "");
    top.textContent = bottom.textContent = "";
    return;
  }
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const across = 300 / (losses.length - 1);
  const up = 92 / (high - low || 1);
  line.setAttribute("points", losses.map((loss, n) => `${(n * across).toFixed(1)},${(106 - (loss - low) * up).toFixed(1)}`).join(" "));
  top.textContent = high.toPrecision(3);
  bottom.textContent = low.toPrecision(3);
}
