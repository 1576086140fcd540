// A matrix as a picture on a canvas: any size, words on the axes where there is room, a cross that mouse, finger and
// arrow keys move. Values above 0 take the tint; in a difference, gains and losses have a colour each.
const LABEL = 13; // pixels that a word on an axis needs
const HEAD = 74; // pixels above the picture for slanted words
const TAIL = 34; // pixels beside it, so that the last ones are not cut off

export function palette() {
  const style = getComputedStyle(document.documentElement);
  const rgb = (name) => style.getPropertyValue(name).trim().split(/\s+/).map(Number);
  const colour = (name) => style.getPropertyValue(name).trim();
  return { tint: rgb("--tint"), gain: rgb("--gain"), loss: rgb("--loss"), cross: colour("--cross"), quiet: colour("--quiet"),
           ink: colour("--ink"), mark: colour("--mark-line"), field: colour("--field") };
}

// How deep a colour: a power below 1 lets faint values be seen beside strong ones.
const strength = ({ top, power }, value) => Math.min(1, Math.abs(value) / (top || 1)) ** power;

// The matrix as an image of at most width x height pixels; where cells share a pixel the strongest one shows.
function picture(matrix, width, height, colours) {
  const w = Math.max(1, Math.min(matrix.cols, width)), h = Math.max(1, Math.min(matrix.rows, height));
  const strongest = new Float32Array(w * h);
  for (let i = 0; i < matrix.rows; i++) {
    const y = Math.floor((i * h) / matrix.rows) * w;
    for (let j = 0; j < matrix.cols; j++) {
      const at = y + Math.floor((j * w) / matrix.cols), value = matrix.values[i * matrix.cols + j];
      if (Math.abs(value) > Math.abs(strongest[at])) strongest[at] = value;
    }
  }
  const canvas = Object.assign(document.createElement("canvas"), { width: w, height: h });
  const context = canvas.getContext("2d"), image = context.createImageData(w, h);
  for (let at = 0; at < strongest.length; at++) {
    const value = strongest[at], [red, green, blue] = !matrix.signed ? colours.tint : value > 0 ? colours.gain : colours.loss;
    image.data[at * 4] = red;
    image.data[at * 4 + 1] = green;
    image.data[at * 4 + 2] = blue;
    image.data[at * 4 + 3] = 255 * strength(matrix, value);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// An empty canvas of that size in CSS pixels, sharp on any screen.
function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1, w = Math.round(width * ratio), h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.imageSmoothingEnabled = false;
  return context;
}

export function thumbnail(canvas, matrix) {
  const width = canvas.clientWidth || 108, height = canvas.clientHeight || 40, ratio = window.devicePixelRatio || 1;
  const context = prepare(canvas, width, height);
  context.drawImage(picture(matrix, Math.round(width * ratio), Math.round(height * ratio), palette()), 0, 0, width, height);
}

export function legend(canvas, { signed, power }) {
  const values = Float32Array.from({ length: 96 }, (_, i) => (signed ? i / 47.5 - 1 : i / 95));
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, 96, 10);
  context.drawImage(picture({ values, rows: 1, cols: 96, signed, top: 1, power }, 96, 1, palette()), 0, 0, 96, 10);
}

// Which words to write on an axis: the weightiest first, as long as they do not touch.
function spread(weights, step) {
  const order = weights.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]);
  const taken = [];
  for (const [, i] of order) if (taken.every((other) => Math.abs(other - i) * step >= LABEL)) taken.push(i);
  return taken;
}

export class HeatMap {
  // onCell(row, column, byKeyboard) is told where the cross was moved to.
  constructor(canvas, gutter, scroller, onCell) {
    Object.assign(this, { canvas, gutter, scroller, onCell, row: null, column: null, matrix: null });
    canvas.addEventListener("pointermove", (event) => event.pointerType === "mouse" && this.#pointer(event));
    canvas.addEventListener("click", (event) => this.#pointer(event));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  // matrix: { values, rows, cols, signed, top, power }; axes: { rows: [words], columns: [words] }; marks: { rows, columns }, each [from, to)
  show(matrix, axes, marks) {
    Object.assign(this, { matrix, axes, marks, colours: palette() });
    const square = matrix.rows === matrix.cols && axes.rows === axes.columns;
    const small = this.scroller.parentElement.clientWidth < 560;
    this.gutterWidth = small ? 72 : 104;
    const room = this.scroller.parentElement.clientWidth - this.gutterWidth - 8 - TAIL;
    const side = Math.min(room, 640);
    this.cellWidth = square ? Math.min(28, Math.max(1, side / matrix.cols)) : Math.min(32, Math.max(4, room / matrix.cols));
    this.cellHeight = square ? this.cellWidth : Math.max(16, Math.min(24, 380 / matrix.rows));
    this.width = Math.ceil(this.cellWidth * matrix.cols);
    this.height = Math.ceil(this.cellHeight * matrix.rows);
    this.canvas.style.width = `${this.width + TAIL}px`;
    this.canvas.style.height = `${this.height + HEAD}px`;
    this.gutter.style.width = `${this.gutterWidth}px`;
    this.gutter.style.height = `${this.height + HEAD}px`;
    const ratio = window.devicePixelRatio || 1;
    this.image = picture(matrix, Math.round(this.width * ratio), Math.round(this.height * ratio), this.colours);
    this.#weigh();
    this.cross(this.row, this.column);
  }

  // The cross on a cell, or on a whole row or column where the other is null.
  cross(row, column) {
    if (!this.matrix) return;
    const inside = (at, size) => (at !== null && at < size ? at : null);
    this.row = inside(row, this.matrix.rows);
    this.column = inside(column, this.matrix.cols);
    cancelAnimationFrame(this.frame); // however fast the mouse, one drawing a frame
    this.frame = requestAnimationFrame(() => {
      this.#draw();
      this.#drawGutter();
    });
  }

  // Scroll sideways to a column, where it is not in sight.
  bring(column) {
    const x = column * this.cellWidth;
    const view = this.scroller;
    if (x < view.scrollLeft || x > view.scrollLeft + view.clientWidth - 20) {
      view.scrollLeft = x - view.clientWidth / 2;
    }
  }

  #weigh() {
    const { values, rows, cols } = this.matrix;
    const peaks = new Array(cols).fill(0), masses = new Array(rows).fill(0);
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < cols; j++) {
        const value = Math.abs(values[i * cols + j]);
        peaks[j] = Math.max(peaks[j], value);
        masses[i] += value;
      }
    }
    const [from, to] = this.marks.columns;
    for (let j = from; j < to; j++) peaks[j] += 10; // the answer's own words are written first, marks without a letter last
    const words = (weights, axis) => weights.map((weight, i) => (/[\p{L}\p{N}]/u.test(axis[i]) ? weight : weight - 20));
    this.topLabels = spread(words(peaks, this.axes.columns), this.cellWidth);
    this.sideLabels = spread(words(masses, this.axes.rows), this.cellHeight);
  }

  #draw() {
    const { cellWidth: w, cellHeight: h, row, column, colours } = this;
    const context = prepare(this.canvas, this.width + TAIL, this.height + HEAD);
    context.fillStyle = colours.field;
    context.fillRect(0, HEAD, this.width, this.height);
    context.drawImage(this.image, 0, HEAD, this.width, this.height);
    context.fillStyle = colours.mark;
    const [from, to] = this.marks.columns;
    if (to > from) context.fillRect(from * w, HEAD - 4, Math.max(2, (to - from) * w), 3);
    context.font = "11.5px system-ui, sans-serif";
    const near = (j) => column !== null && j !== column && Math.abs(j - column) * w < LABEL;
    const labels = this.topLabels.filter((j) => !near(j));
    if (column !== null && !labels.includes(column)) labels.push(column);
    for (const j of labels) {
      context.save();
      context.translate((j + 0.5) * w + 4, HEAD - 8);
      context.rotate(-Math.PI / 3);
      context.fillStyle = j === column ? colours.ink : colours.quiet;
      context.font = `${j === column ? 600 : 400} 11.5px system-ui, sans-serif`;
      context.fillText(clip(this.axes.columns[j], 11), 0, 0);
      context.restore();
    }
    context.fillStyle = context.strokeStyle = colours.cross;
    context.globalAlpha = 0.16;
    if (row !== null) context.fillRect(0, HEAD + row * h, this.width, h);
    if (column !== null) context.fillRect(column * w, HEAD, w, this.height);
    context.globalAlpha = 1;
    if (row !== null && column !== null) context.strokeRect(column * w - 0.5, HEAD + row * h - 0.5, w + 1, h + 1);
  }

  #drawGutter() {
    const { cellHeight: h, row, colours } = this;
    const context = prepare(this.gutter, this.gutterWidth, this.height + HEAD);
    context.textAlign = "right";
    context.textBaseline = "middle";
    const labels = this.sideLabels.filter((i) => row === null || i === row || Math.abs(i - row) * h >= LABEL);
    if (row !== null && !labels.includes(row)) labels.push(row);
    for (const i of labels) {
      context.fillStyle = i === row ? colours.ink : colours.quiet;
      context.font = `${i === row ? 600 : 400} 12px system-ui, sans-serif`;
      context.fillText(clip(this.axes.rows[i], this.gutterWidth < 90 ? 10 : 15), this.gutterWidth - 4, HEAD + (i + 0.5) * h);
    }
    const [from, to] = this.marks.rows;
    context.fillStyle = colours.mark;
    if (to > from) context.fillRect(this.gutterWidth - 3, HEAD + from * h, 3, Math.max(2, (to - from) * h));
  }

  #pointer(event) {
    if (!this.matrix) return;
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.cellWidth);
    const row = Math.floor((event.clientY - box.top - HEAD) / this.cellHeight);
    if (row < 0 || row >= this.matrix.rows || column < 0 || column >= this.matrix.cols) return;
    this.#move(row, column, false);
  }

  #key(event) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step || !this.matrix || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const far = event.shiftKey ? 10 : 1, hold = (at, size) => Math.max(0, Math.min(size - 1, at));
    this.#move(hold((this.row ?? 0) + step[0] * far, this.matrix.rows), hold((this.column ?? 0) + step[1] * far, this.matrix.cols), true);
    this.bring(this.column);
  }

  #move(row, column, byKeyboard) {
    if (row === this.row && column === this.column && !byKeyboard) return;
    this.cross(row, column);
    this.onCell(row, column, byKeyboard);
  }
}

const clip = (word, most) => ([...word].length > most ? `${[...word].slice(0, most - 1).join("")}…` : word);
