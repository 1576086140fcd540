// A text that is cut by code points, which is what the server counts. JavaScript counts UTF-16
// units, and an array of the code points of a long text would not fit into memory.

export class Text {
  constructor(text) {
    this.text = text;
    this.plain = !/[\ud800-\udfff]/.test(text);
    // The last place that was looked up, in code points and in units: the next is often near.
    this.last = { point: 0, unit: 0 };
  }

  get length() {
    if (this.size === undefined) this.size = this.plain ? this.text.length : [...this.text].length;
    return this.size;
  }

  // The part from one code point to before another.
  slice(from, to = Infinity) {
    return this.text.slice(this.unit(from), to === Infinity ? undefined : this.unit(to));
  }

  unit(point) {
    if (this.plain) return point;
    let { point: at, unit } = this.last.point <= point ? this.last : { point: 0, unit: 0 };
    while (at < point && unit < this.text.length) {
      unit += this.text.codePointAt(unit) > 0xffff ? 2 : 1;
      at += 1;
    }
    this.last = { point: at, unit };
    return unit;
  }
}
