"use strict";
(() => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const at = (id) => document.getElementById(id);
  const make = (name, attributes = {}, text = null) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== null) element.textContent = text;
    return element;
  };

  // Theme: as the system has it, until someone chooses.
  const remembered = (() => { try { return localStorage.getItem("promask-theme"); } catch { return null; } })();
  if (remembered) document.documentElement.dataset.theme = remembered;
  at("theme").addEventListener("click", () => {
    const chosen = document.documentElement.dataset.theme
      || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const other = chosen === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = other;
    try { localStorage.setItem("promask-theme", other); } catch { /* not kept */ }
  });

  // Arrays are deflated and in base64.
  const unpack = async (packed, Type) => {
    const bytes = Uint8Array.from(atob(packed.data), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Type(await new Response(stream).arrayBuffer());
  };

  // Pictures of k-space.
  const palette = content.palette.match(/.{6}/g).map((hex) => [0, 2, 4].map((place) => parseInt(hex.substr(place, 2), 16)));
  const stops = [0, 64, 128, 192, 255].map((place) => `rgb(${palette[place].join(" ")})`);
  document.documentElement.style.setProperty("--viridis", `linear-gradient(90deg, ${stops.join(", ")})`);
  const paint = (canvas, [height, width], colour) => {
    canvas.width = width;
    canvas.height = height;
    canvas.style.aspectRatio = `${width} / ${Math.max(height, width / 4)}`;
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(width, height);
    for (let place = 0; place < width * height; place++) {
      pixels.data.set(colour(place), 4 * place);
      pixels.data[4 * place + 3] = 255;
    }
    context.putImageData(pixels, 0, 0);
  };
  const viridis = (share) => palette[Math.round(255 * Math.min(1, share))];
  const GREYS = [[0, 0, 0], [255, 255, 255], [90, 90, 90]];

  const showMaps = async () => {
    const [height, width] = content.mask.shape;
    const mask = await unpack(content.mask, Uint8Array);
    const probabilities = await unpack(content.probabilities, Uint16Array);
    const spread = content.spread && await unpack(content.spread, Uint16Array);
    paint(at("mask-map"), [height, width], (place) => GREYS[mask[place]]);
    paint(at("probabilities-map"), [height, width], (place) => viridis(probabilities[place] / 65535));
    if (spread) paint(at("spread-map"), [height, width], (place) => viridis(spread[place] / 65535));
    let row = content.mask.centre[0], column = content.mask.centre[1];
    const tell = () => {
      const place = row * width + column;
      const state = ["not acquired", "acquired", "padding"][mask[place]];
      const value = (probabilities[place] / 65535).toFixed(3);
      const deviation = spread ? ` ± ${(spread[place] / 65535 * content.spread.largest).toFixed(3)}` : "";
      const [down, across] = content.mask.directions;
      at("readout").textContent = `${across} ${column - content.mask.centre[1]}, ${down} ${row - content.mask.centre[0]}: `
        + `probability ${value}${deviation}, ${state}`;
    };
    const clamp = (value, size) => Math.min(size - 1, Math.max(0, value));
    for (const canvas of document.querySelectorAll(".maps canvas[tabindex]")) {
      canvas.addEventListener("pointermove", (event) => {
        const box = canvas.getBoundingClientRect();
        column = clamp(Math.floor((event.clientX - box.left - canvas.clientLeft) / canvas.clientWidth * width), width);
        row = clamp(Math.floor((event.clientY - box.top - canvas.clientTop) / canvas.clientHeight * height), height);
        tell();
      });
      canvas.addEventListener("focus", tell);
      canvas.addEventListener("keydown", (event) => {
        const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
        if (!move) return;
        event.preventDefault();
        const far = event.shiftKey ? 10 : 1;
        row = clamp(row + far * move[0], height);
        column = clamp(column + far * move[1], width);
        tell();
      });
    }
  };

  // Before and after.
  const showExamples = () => {
    const names = Object.keys(content.masks);
    for (const side of ["before", "after"]) {
      at(side).append(make("option", { value: "" }, "fully sampled"), ...names.map((name) => make("option", { value: name }, name)));
      at(side).addEventListener("change", update);
    }
    at("example").addEventListener("change", update);
    at("before").value = names.find((name) => name !== names[0]) || "";
    at("after").value = names[0];
    function update() {
      const example = content.examples[at("example").value];
      for (const side of ["before", "after"]) {
        const name = at(side).value;
        const found = name ? example.masks[name] : null;
        const words = found ? [name, `${found.psnr} dB`, found.ssim && `SSIM ${found.ssim}`] : ["fully sampled"];
        at(`wipe-${side}`).src = found ? found.image : example.full;
        at(`wipe-${side}`).alt = `Reconstruction: ${words.filter(Boolean).join(", ")}`;
        at(`caption-${side}`).textContent = words.filter(Boolean).join(", ");
        for (const [kind, source] of [["error", found && found.error], ["mask", name && content.masks[name]]]) {
          const picture = at(`${kind}-${side}`);
          picture.style.visibility = source ? "visible" : "hidden";
          if (source) picture.src = source;
          picture.alt = source ? `${kind} of ${name}` : "";
        }
      }
    }
    const slide = (value) => {
      at("slider").value = value;
      at("wipe").style.setProperty("--cut", `${at("slider").value}%`);
    };
    at("slider").addEventListener("input", () => slide(at("slider").value));
    const follow = (event) => {
      const box = at("wipe").getBoundingClientRect();
      slide(100 * (event.clientX - box.left) / box.width);
    };
    at("wipe").addEventListener("pointerdown", (event) => { at("wipe").setPointerCapture(event.pointerId); follow(event); });
    at("wipe").addEventListener("pointermove", (event) => { if (event.buttons) follow(event); });
    update();
    slide(50);
  };

  // Tables: cells are {text, value}; a click on a heading sorts, and another one turns the order.
  const MOST_ROWS = 500;
  const table = (element, columns, rows, note = () => {}) => {
    const head = element.appendChild(make("thead")).appendChild(make("tr"));
    const body = element.appendChild(make("tbody"));
    let order = rows;
    const fill = () => {
      body.replaceChildren(...order.slice(0, MOST_ROWS).map((row) => {
        const line = make("tr", row.learned ? { class: "learned" } : {});
        line.append(...row.cells.map((cell, place) => place
          ? make("td", cell.best ? { class: "best" } : {}, cell.text) : make("th", { scope: "row" }, cell.text)));
        return line;
      }));
      note(Math.min(rows.length, MOST_ROWS), rows.length);
    };
    columns.forEach((column, place) => {
      const heading = head.appendChild(make("th", { scope: "col", "aria-sort": "none" }));
      heading.appendChild(make("button", { type: "button" }, column)).addEventListener("click", () => {
        const turned = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const other of head.children) other.setAttribute("aria-sort", "none");
        heading.setAttribute("aria-sort", turned > 0 ? "ascending" : "descending");
        const known = (row) => row.cells[place].value;
        order = [...rows].sort((one, other) => {
          const [a, b] = [known(one), known(other)];
          if (a === null || b === null) return (a === null) - (b === null);
          return turned * (typeof a === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
        });
        fill();
      });
    });
    fill();
  };

  const showCompared = () => {
    const { columns, rows } = content.compared;
    table(at("compared"), ["mask", ...columns.map((column) => column.title)], rows);
  };

  const showSlices = () => {
    const { columns, rows } = content.slices;
    const write = (value, column) => value === null ? "-" : column.digits === null ? String(value) : value.toFixed(column.digits);
    table(at("slices-table"), columns.map((column) => column.title), rows.map((row) => ({
      cells: row.map((value, place) => ({ value, text: write(value, columns[place]) })),
    })), (shown, all) => {
      at("slices-note").textContent = shown < all ? `The first ${shown} of ${all} rows in this order; the CSV file has all of them.` : "";
    });
    at("metric").addEventListener("change", () => histogram(columns, rows));
    whenSized(at("histogram"), () => histogram(columns, rows));
    at("csv").addEventListener("click", () => {
      const quoted = (value) => value === null ? "" : /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value;
      const lines = [columns.map((column) => column.title), ...rows].map((row) => row.map(quoted).join(","));
      const link = make("a", { download: "images.csv", href: URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" })) });
      link.click();
      URL.revokeObjectURL(link.href);
    });
  };

  // Charts.
  const NS = "http://www.w3.org/2000/svg";
  const draw = (svg, name, attributes, text = null) => {
    const element = svg.appendChild(document.createElementNS(NS, name));
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== null) element.textContent = text;
    return element;
  };
  const BOX = { left: 62, right: 62, top: 18, bottom: 40 };
  const empty = (svg) => {
    svg.replaceChildren();
    const { width, height } = svg.getBoundingClientRect();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const [w, h] = [width - BOX.left - BOX.right, height - BOX.top - BOX.bottom];
    draw(svg, "path", { class: "axis", fill: "none", d: `M${BOX.left} ${BOX.top}V${BOX.top + h}H${BOX.left + w}` });
    return { x: (share) => BOX.left + share * w, y: (share) => BOX.top + (1 - share) * h, w, h };
  };
  // Charts fill their place, and are drawn when it has a size: a report may be opened in a frame that is hidden.
  const whenSized = (svg, plot) => new ResizeObserver(() => {
    const { width, height } = svg.getBoundingClientRect();
    if (width > BOX.left + BOX.right && height > BOX.top + BOX.bottom) plot();
  }).observe(svg);
  const short = (value) => Number(value.toPrecision(3)).toString();

  const histogram = (columns, rows) => {
    const svg = at("histogram");
    const place = Number(at("metric").value);
    const values = rows.map((row) => row[place]).filter((value) => value !== null);
    const { x, y, w } = empty(svg);
    if (!values.length) return;
    const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
    const bins = Math.max(1, Math.min(24, Math.ceil(2 * Math.cbrt(values.length))));
    const counts = Array(bins).fill(0);
    for (const value of values) counts[Math.min(bins - 1, Math.floor(bins * (value - low) / (high - low || 1)))]++;
    const most = Math.max(...counts);
    counts.forEach((count, bin) => {
      const bar = draw(svg, "rect", { x: x(bin / bins) + 1, y: y(count / most), width: Math.max(1, w / bins - 2), height: y(0) - y(count / most) });
      const ends = [bin, bin + 1].map((end) => short(low + end * (high - low) / bins));
      draw(bar, "title", {}, `${ends.join(" to ")}: ${count}`);
    });
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    draw(svg, "text", { x: x(0), y: y(0) + 17 }, short(low));
    draw(svg, "text", { x: x(1), y: y(0) + 17, "text-anchor": "end" }, short(high));
    draw(svg, "text", { x: x(0.5), y: y(0) + 34, "text-anchor": "middle" }, `${columns[place].title}: mean ${short(mean)} over ${values.length}`);
    draw(svg, "text", { x: x(0) - 8, y: y(1) + 5, "text-anchor": "end" }, most);
    draw(svg, "text", { x: x(0) - 8, y: y(0), "text-anchor": "end" }, "0");
    svg.setAttribute("aria-label", `Histogram of ${columns[place].title}, from ${short(low)} to ${short(high)}, mean ${short(mean)}`);
  };

  const curve = () => {
    const svg = at("curve");
    const { steps, loss, budget, name, noun } = content.history;
    const { x, y } = empty(svg);
    const last = steps[steps.length - 1];
    const logarithmic = loss.every((value) => value > 0);
    const scaled = loss.map((value) => logarithmic ? Math.log(value) : value);
    const [low, high] = [Math.min(...scaled), Math.max(...scaled)];
    const along = (place) => x((steps[place] - 1) / Math.max(last - 1, 1)).toFixed(1);
    const line = (values) => values.length > 1
      ? values.map((value, place) => `${place ? "L" : "M"}${along(place)} ${y(value).toFixed(1)}`).join("")
      : `M${x(0)} ${y(values[0]).toFixed(1)}H${x(1)}`;
    const most = Math.max(...budget);
    draw(svg, "path", { class: "budget", d: line(budget.map((value) => value / most)) });
    draw(svg, "path", { class: "loss", d: line(scaled.map((value) => (value - low) / (high - low || 1))) });
    draw(svg, "text", { x: x(0) - 8, y: y(1) + 5, "text-anchor": "end" }, short(Math.max(...loss)));
    draw(svg, "text", { x: x(0) - 8, y: y(0), "text-anchor": "end" }, short(Math.min(...loss)));
    draw(svg, "text", { x: x(1) + 8, y: y(1) + 5 }, Math.round(most));
    draw(svg, "text", { x: x(1) + 8, y: y(0) }, "0");
    draw(svg, "text", { x: x(0), y: y(0) + 17 }, "1");
    draw(svg, "text", { x: x(1), y: y(0) + 17, "text-anchor": "end" }, last);
    draw(svg, "text", { x: x(0.5), y: y(0) + 17, "text-anchor": "middle" }, noun);
    draw(svg, "text", { class: "loss-name", x: x(0), y: 10 }, `${name}${logarithmic ? " (log)" : ""}`);
    draw(svg, "text", { class: "budget-name", x: x(1), y: 10, "text-anchor": "end" }, "budget (units), dashed");
  };

  const showFilm = async () => {
    const { steps, shape } = content.trajectory;
    const values = await unpack(content.trajectory, Uint8Array);
    const size = shape[1] * shape[2];
    const show = () => {
      const moment = Number(at("moment").value);
      paint(at("film"), shape.slice(1), (place) => palette[values[moment * size + place]]);
      at("film-step").textContent = `${steps[moment]} of ${steps[steps.length - 1]}`;
    };
    at("moment").addEventListener("input", show);
    let timer = null;
    at("play").addEventListener("click", () => {
      clearInterval(timer);
      at("moment").value = 0;
      show();
      timer = setInterval(() => {
        at("moment").value = Number(at("moment").value) + 1;
        show();
        if (Number(at("moment").value) >= steps.length - 1) clearInterval(timer);
      }, 400);
    });
    show();
  };

  // Series of frames: each panel is a strip of all frames below each other.
  const showReel = () => {
    const { frames, size: [height, width], panels, over_time: curves } = content.film;
    const strips = panels.map((panel) => { const strip = new Image(); strip.src = panel.strip; return strip; });
    const canvases = [...document.querySelectorAll(".reel")];
    for (const canvas of canvases) [canvas.width, canvas.height] = [width, height];
    const show = () => {
      const frame = Number(at("reel-frame").value);
      canvases.forEach((canvas, place) => canvas.getContext("2d")
        .drawImage(strips[place], 0, frame * height, width, height, 0, 0, width, height));
      at("reel-number").textContent = `frame ${frame + 1} of ${frames}`;
      const moment = at("over-time").querySelector(".moment");
      if (moment) {
        const [left, right] = [Number(moment.dataset.left), Number(moment.dataset.right)];
        const x = left + (right - left) * frame / Math.max(frames - 1, 1);
        moment.setAttribute("x1", x);
        moment.setAttribute("x2", x);
      }
    };
    let timer = null;
    const stop = () => {
      clearInterval(timer);
      timer = null;
      at("reel-play").textContent = "Play";
      at("reel-play").setAttribute("aria-pressed", "false");
    };
    at("reel-play").addEventListener("click", () => {
      if (timer !== null) return stop();
      at("reel-play").textContent = "Pause";
      at("reel-play").setAttribute("aria-pressed", "true");
      timer = setInterval(() => {
        at("reel-frame").value = (Number(at("reel-frame").value) + 1) % frames;
        show();
      }, Math.max(40, 1500 / frames));
    });
    at("reel-frame").addEventListener("input", () => { stop(); show(); });
    whenSized(at("over-time"), () => { overTime(curves, frames); show(); });
    Promise.all(strips.map((strip) => strip.decode())).then(() => {
      show();
      at("reel-frame").dataset.ready = "yes";
    });
  };

  const overTime = (curves, frames) => {
    const svg = at("over-time");
    const { x, y } = empty(svg);
    const values = Object.values(curves).flat().filter(Number.isFinite);
    const [low, high] = [Math.floor(Math.min(...values)), Math.ceil(Math.max(...values))];
    const height = (value) => y((value - low) / (high - low || 1)).toFixed(1);
    Object.entries(curves).forEach(([name, curve], place) => {
      const learned = place ? "" : " learned";
      const d = curve.map((value, frame) => `${frame ? "L" : "M"}${x(frame / Math.max(frames - 1, 1)).toFixed(1)} ${height(value)}`);
      draw(svg, "path", { class: `time${learned}`, d: d.join("") });
      draw(svg, "text", { class: `time-name${learned}`, x: x(place ? 1 : 0), y: 10, "text-anchor": place ? "end" : "start" }, `${name}, dB`);
    });
    draw(svg, "line", { class: "moment", x1: x(0), x2: x(0), y1: y(0), y2: y(1), "data-left": x(0), "data-right": x(1) });
    draw(svg, "text", { x: x(0) - 8, y: y(1) + 5, "text-anchor": "end" }, high);
    draw(svg, "text", { x: x(0) - 8, y: y(0), "text-anchor": "end" }, low);
    draw(svg, "text", { x: x(0), y: y(0) + 17 }, "1");
    draw(svg, "text", { x: x(1), y: y(0) + 17, "text-anchor": "end" }, frames);
    draw(svg, "text", { x: x(0.5), y: y(0) + 17, "text-anchor": "middle" }, "frame");
  };

  // Copying; where the clipboard cannot be used, the text is selected.
  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("pre");
      try {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(text);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  (content.mask ? showMaps() : Promise.resolve()).then(() => { document.documentElement.dataset.ready = "yes"; });
  if (content.examples.length) showExamples();
  if (content.compared) showCompared();
  if (content.slices) showSlices();
  if (content.trajectory) showFilm();
  if (content.film) showReel();
  whenSized(at("curve"), curve);
})();
