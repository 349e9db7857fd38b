// A text whose words become elements, while it grows.

/** A text in an element, in which words become elements of their own, from first to last. */
export class WordText {
  text = '';
  /** @type {HTMLElement[]} */
  words = [];
  rest = new Text();
  #done = 0;

  /**
   * @param {HTMLElement} root
   * @param {function(): HTMLElement} make Makes the element of a word.
   * @param {string} tail Text after the text.
   */
  constructor(root, make, tail) {
    this.root = root;
    this.make = make;
    this.tail = tail;
  }

  /** Shows a text without words. */
  show(text) {
    this.text = text;
    this.words = [];
    this.#done = 0;
    this.rest = new Text(text + this.tail);
    this.root.replaceChildren(this.rest);
  }

  /** Continues the text. */
  append(text) {
    this.text += text;
    this.mark([]);
  }

  /** Makes elements of words that follow all words so far. */
  mark(spans) {
    for (const [start, end] of spans) {
      const word = this.make();
      word.textContent = this.text.slice(start, end);
      this.rest.before(this.text.slice(this.#done, start), word);
      this.words.push(word);
      this.#done = end;
    }
    this.rest.data = this.text.slice(this.#done) + this.tail;
  }
}
