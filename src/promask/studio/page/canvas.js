// The probabilities as a picture: DC in the middle, the colours of viridis.
const plane = { values: null, height: 0, width: 0, names: [] };

// The units that the server sends are those of the free axes; lines fill k-space along another one.
function drawUnits(units, { free, shape, directions }) {
  const bytes = Uint8Array.from(atob(units.bytes), (letter) => letter.charCodeAt(0));
  const last = shape.length - 1;
  const axes = free.length === 2 ? free : [free[0], free[0] === last ? last - 1 : last].sort();
  const [height, width] = axes.map((axis) => shape[axis]);
  const values = new Uint8Array(height * width);
  for (let y = 0, place = 0; y < height; y++) {
    for (let x = 0; x < width; x++, place++) {
      values[place] = free.length === 2 ? bytes[place] : bytes[free[0] === axes[0] ? y : x];
    }
  }
  Object.assign(plane, { values, height, width, names: axes.map((axis) => directions[axis]) });
  for (const [place, id] of ["down", "across"].entries()) at(id).textContent = plane.names[place] || `axis ${axes[place]}`;
  paint(at("canvas"), values, height, width);
}

function paint(canvas, values, height, width) {
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let place = 0; place < values.length; place++) {
    const [red, green, blue] = known.viridis[values[place]];
    image.data.set([red, green, blue, 255], 4 * place);
  }
  context.putImageData(image, 0, 0);
}

(() => {
  paint(at("scale"), Uint8Array.from({ length: 256 }, (_, level) => level), 1, 256);
  const usual = at("hover").textContent;
  at("canvas").addEventListener("pointermove", (event) => {
    if (!plane.values) return;
    const box = at("canvas").getBoundingClientRect();
    const inside = (part, whole, n) => Math.max(0, Math.min(n - 1, Math.floor((part / whole) * n)));
    const x = inside(event.clientX - box.left, box.width, plane.width);
    const y = inside(event.clientY - box.top, box.height, plane.height);
    const value = plane.values[y * plane.width + x] / 255;
    const across = `${plane.names[1] || "column"} ${x - Math.floor(plane.width / 2)}`;
    const down = `${plane.names[0] || "row"} ${y - Math.floor(plane.height / 2)}`;
    at("hover").textContent = `${across}, ${down}: probability ${value.toFixed(2)}`.replace(/-/g, "−");
  });
  at("canvas").addEventListener("pointerleave", () => { at("hover").textContent = usual; });
})();
