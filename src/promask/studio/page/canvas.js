// The probabilities as a picture: DC in the middle, the colours of viridis.
const plane = { values: null, height: 0, width: 0, tell: null, usual: at("hover").textContent, hovered: false };
const GAP = -1, GREY = [128, 128, 128];

// The units that the server sends are those of the free axes; lines fill k-space along another one.
function drawUnits(units, { free, shape, directions, varies, rotated, period }) {
  const bytes = Uint8Array.from(atob(units.bytes), (letter) => letter.charCodeAt(0));
  const nameOf = (axis) => directions[axis] || `axis ${axis}`;
  const drawn = rotated ? rotations(bytes, units.shape, rotated, period) : varies ? (free.length === 2 ? overTime : frameByFrame)(bytes, units.shape, free.slice(1).map(nameOf)) : inPlane(bytes, free, shape, nameOf);
  Object.assign(plane, { usual: "Probability to be acquired; the zero frequency is in the middle." }, drawn);
  for (const [place, id] of ["down", "across"].entries()) at(id).textContent = plane.names[place];
  at("canvas").classList.toggle("over-time", varies && free.length === 2);
  if (!plane.hovered) at("hover").textContent = plane.usual;
  paint(at("canvas"), plane.values, plane.height, plane.width);
}

const offset = (name, place, n) => `${name} ${place - Math.floor(n / 2)}`;

function inPlane(bytes, free, shape, nameOf) {
  const last = shape.length - 1;
  const axes = free.length === 2 ? free : [free[0], free[0] === last ? last - 1 : last].sort();
  const [height, width] = axes.map((axis) => shape[axis]);
  const values = new Int16Array(height * width);
  for (let y = 0, place = 0; y < height; y++) {
    for (let x = 0; x < width; x++, place++) {
      values[place] = free.length === 2 ? bytes[place] : bytes[free[0] === axes[0] ? y : x];
    }
  }
  const names = axes.map(nameOf);
  return { values, height, width, names, tell: (x, y) => `${offset(names[1], x, width)}, ${offset(names[0], y, height)}` };
}

// Spokes or interleaves in k-space, drawn as lines; those of each frame as marks over the angle, and time runs down.
const SIDE = 257;

function rotations(bytes, units, rotated, period) {
  const degrees = (angle) => `${((angle / Math.PI) * 180).toFixed(1)}°`;
  if (units.length === 2) {
    const [height, width] = units;
    const usual = "Probability to be acquired; each row is a frame, and angles go from left to right.";
    const tell = (x, y) => `${degrees((period * x) / width)}, frame ${y + 1}`;
    return { values: Int16Array.from(bytes), height, width, names: ["frame", "angle"], usual, tell };
  }
  const values = new Int16Array(SIDE * SIDE);
  const middle = (SIDE - 1) / 2, scale = SIDE - 1;
  const order = [...bytes.keys()].filter((place) => bytes[place]).sort((one, other) => bytes[one] - bytes[other]);
  for (const place of order) {
    const angle = (period * place) / bytes.length;
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    const points = rotated.map(([y, x]) => [middle + scale * (cos * y + sin * x), middle + scale * (cos * x - sin * y)]);
    for (let n = 1; n < points.length; n++) {
      const [[y0, x0], [y1, x1]] = [points[n - 1], points[n]];
      const steps = Math.ceil(1.5 * Math.hypot(y1 - y0, x1 - x0)) || 1;
      for (let step = 0; step <= steps; step++) {
        const [y, x] = [y0 + ((y1 - y0) * step) / steps, x0 + ((x1 - x0) * step) / steps].map(Math.round);
        values[y * SIDE + x] = bytes[place];
      }
    }
  }
  const usual = "Probability to be acquired; the zero frequency is in the middle.";
  const tell = (x, y) => degrees((Math.atan2(y - middle, x - middle) + 2 * Math.PI) % period);
  return { values, height: SIDE, width: SIDE, names: ["ky", "kx"], usual, tell };
}

// The lines of each frame: time runs down.
function overTime(bytes, [height, width], [name]) {
  const usual = "Probability to be acquired; each row is a frame, and the zero frequency is in the middle.";
  const tell = (x, y) => `${offset(name, x, width)}, frame ${y + 1}`;
  return { values: Int16Array.from(bytes), height, width, names: ["frame", name], usual, tell };
}

// The locations of each frame: pictures beside each other, row by row.
function frameByFrame(bytes, [frames, rows, columns], names) {
  const across = Math.max(1, Math.min(frames, Math.round(Math.sqrt((frames * rows) / columns))));
  const [height, width] = [Math.ceil(frames / across) * (rows + 1) - 1, across * (columns + 1) - 1];
  const values = new Int16Array(height * width).fill(GAP);
  for (let place = 0; place < bytes.length; place++) {
    const [frame, y, x] = [Math.floor(place / (rows * columns)), Math.floor(place / columns) % rows, place % columns];
    values[(Math.floor(frame / across) * (rows + 1) + y) * width + (frame % across) * (columns + 1) + x] = bytes[place];
  }
  const usual = "Probability to be acquired; each picture is a frame, with the zero frequency in its middle.";
  const tell = (x, y) => {
    const frame = Math.floor(y / (rows + 1)) * across + Math.floor(x / (columns + 1));
    return `${offset(names[1], x % (columns + 1), columns)}, ${offset(names[0], y % (rows + 1), rows)}, frame ${frame + 1}`;
  };
  return { values, height, width, names, usual, tell };
}

function paint(canvas, values, height, width) {
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let place = 0; place < values.length; place++) {
    const [red, green, blue] = values[place] === GAP ? GREY : known.viridis[values[place]];
    image.data.set([red, green, blue, 255], 4 * place);
  }
  context.putImageData(image, 0, 0);
}

(() => {
  paint(at("scale"), Uint8Array.from({ length: 256 }, (_, level) => level), 1, 256);
  at("canvas").addEventListener("pointermove", (event) => {
    if (!plane.values) return;
    plane.hovered = true;
    const box = at("canvas").getBoundingClientRect();
    const inside = (part, whole, n) => Math.max(0, Math.min(n - 1, Math.floor((part / whole) * n)));
    const x = inside(event.clientX - box.left, box.width, plane.width);
    const y = inside(event.clientY - box.top, box.height, plane.height);
    const value = plane.values[y * plane.width + x];
    at("hover").textContent = value === GAP ? plane.usual : `${plane.tell(x, y)}: probability ${(value / 255).toFixed(2)}`.replace(/-/g, "−");
  });
  at("canvas").addEventListener("pointerleave", () => {
    plane.hovered = false;
    at("hover").textContent = plane.usual;
  });
})();
