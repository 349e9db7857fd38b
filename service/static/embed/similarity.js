// The vectors of a text that is embedded: their similarity, their numbers, and their tokens.

import { Latest, post } from '../common/api.js';
import { byId, button, element, setStale, setText, tokenParts } from '../common/dom.js';
import { withTerms } from '../common/glossary.js';
import { HeatMap } from '../common/heatmap.js';
import { scaleOf, strip } from '../common/strip.js';
import { speaker } from '../common/strings.js';
import { decimal } from '../common/text.js';
import { embed } from '../strings/embed.js';
import { cosine, sentencesOf, sharesOf } from './vectors.js';

const say = speaker(embed);

const MAX_SENTENCES = 24;

/** The panel of the vectors; hidden while a text is translated. */
export class SimilarityPanel {
  #latest = new Latest();
  #tokens = new Latest();
  /** @type {EmbeddedText|null} */
  #text = null;
  /** @type {string[]} */
  #sentences = [];
  /** @type {{vectors: number[][], cut: boolean[]}|null} */
  #found = null;

  /**
   * @param {Object} parts
   * @param {Store} parts.store
   * @param {Notice} parts.notice
   * @param {CurlLine} parts.curl
   */
  constructor({ store, notice, curl }) {
    this.store = store;
    this.notice = notice;
    this.curl = curl;
    this.root = byId('similarity');
    this.map = new HeatMap({
      root: byId('similarity-map'),
      table: byId('similarity-table'),
      point: (row, column) => this.#point(row, column),
      open: (row) => store.set({ sentence: row }),
    });
    byId('similarity-figure').append(this.map.saveButtons('regard-similarity'));
    byId('similarity-words').replaceChildren(...withTerms(say('mapWords')));
    byId('shares-words').replaceChildren(...withTerms(say('shareWords')));
    store.subscribe((view, before) => {
      if (this.#found && view.sentence !== before.sentence) this.#choose();
    });
    document.addEventListener('themechange', () => this.#found && this.#renderStrips(this.#found));
  }

  /** Shows the vectors of a text to embed; null or a translation shows none. */
  async follow(text) {
    this.#latest.cancel();
    this.#tokens.cancel();
    const isShown = text?.task === 'embed';
    this.root.hidden = !isShown;
    if (!isShown) return;
    this.#text = text;
    const all = sentencesOf(text.text);
    this.#sentences = all.slice(0, MAX_SENTENCES);
    const isCut = all.length > MAX_SENTENCES;
    setText(byId('similarity-cut'), isCut ? say('tooMany', { count: MAX_SENTENCES }) : '');
    this.root.setAttribute('aria-busy', 'true');
    setStale(this.root, true);
    const body = { input: this.#sentences, ...this.#model(), truncate: true };
    const isLast = await this.notice.guard(this.#latest, (signal) => post('v1/embeddings', body, signal), ({ data }) => {
      this.curl.show('v1/embeddings', body);
      this.#render(data);
    });
    if (isLast) this.root.setAttribute('aria-busy', 'false');
  }

  #model() {
    const model = this.#text?.model ?? null;
    return model === null ? {} : { model };
  }

  /** @param {Json[]} data Of POST /v1/embeddings. */
  #render(data) {
    setStale(this.root, false);
    this.#found = {
      vectors: data.map(({ embedding }) => embedding),
      cut: data.map(({ truncated }) => truncated === true),
    };
    const { vectors } = this.#found;
    setText(byId('similarity-intro'), say('intro', { count: vectors[0].length }));
    const isPair = vectors.length > 1;
    setText(byId('similarity-one'), isPair ? '' : say('one'));
    byId('similarity-figure').hidden = !isPair;
    if (isPair) this.#renderMap(vectors);
    this.#renderStrips(this.#found);
    this.#choose();
  }

  #renderMap(vectors) {
    const values = vectors.map((a) => vectors.map((b) => cosine(a, b)));
    const labels = this.#sentences.map((sentence, index) => `${index + 1}. ${sentence}`);
    const [rowTitle, columnTitle] = [say('side'), say('side')];
    const sides = { rows: labels, columns: labels, rowTitle, columnTitle };
    setText(byId('similarity-readout'), say('howTo'));
    const label = say('mapLabel', { count: vectors.length });
    this.map.show({ ...sides, values, max: 1, isCausal: false, isWritten: true }, label);
  }

  #point(row, column) {
    const { figure } = this.map;
    if (figure === null) return;
    const [from, to] = [this.#sentences[row], this.#sentences[column]];
    const number = decimal(figure.values[row][column], 4);
    setText(byId('similarity-readout'), say('pair', { from, to, number }));
  }

  #renderStrips({ vectors, cut }) {
    const scale = scaleOf(vectors);
    const items = vectors.map((vector, index) => {
      const sentence = this.#sentences[index];
      const choice = button(sentence, () => this.store.set({ sentence: index }));
      const note = cut[index] ? ` ${say('truncated')}` : '';
      return element('li', {}, choice, note, strip(vector, scale, say('vectorOf', { sentence })));
    });
    byId('strips').replaceChildren(...items);
  }

  get #place() {
    return Math.min(this.store.view.sentence, this.#sentences.length - 1);
  }

  /** Shows the tokens of the chosen sentence. */
  async #choose() {
    const sentence = this.#sentences[this.#place];
    byId('strips').querySelectorAll('button').forEach((button, index) => {
      button.setAttribute('aria-pressed', String(index === this.#place));
    });
    setText(byId('shares-title'), say('shareTitle', { sentence }));
    const body = { inputs: [sentence], ...this.#model() };
    const ask = (signal) =>
      Promise.all([
        post('tokenize', body, signal),
        post('embed_all', { ...body, truncate: true }, signal),
        post('embed', { ...body, truncate: true, normalize: false }, signal),
      ]);
    await this.notice.guard(this.#tokens, ask, ([[tokens], [vectors], [pooled]]) =>
      this.#renderShares(tokens, sharesOf(vectors, pooled)),
    );
  }

  #renderShares(tokens, shares) {
    byId('shares').hidden = shares === null;
    byId('shares-words').hidden = shares === null;
    setText(byId('shares-honest'), say(shares === null ? 'notMean' : 'shareHonest'));
    if (shares === null) return;
    const largest = Math.max(...shares);
    const rows = shares.map((share, index) => shareRow(tokens[index].text, share, largest));
    byId('shares').tBodies[0].replaceChildren(...rows);
    const sum = shares.reduce((total, share) => total + share, 0);
    const total = element('td', { text: decimal(sum, 4) });
    const name = element('th', { scope: 'row', text: say('sum') });
    byId('shares').tFoot?.replaceChildren(element('tr', {}, name, element('td'), total));
  }
}

function shareRow(token, share, largest) {
  const filled = element('i');
  filled.style.setProperty('--share', String(Math.max(0, share / largest)));
  return element(
    'tr',
    { class: share === largest ? 'top' : null },
    element('th', { scope: 'row' }, ...tokenParts(token)),
    element('td', { class: 'part-bar', 'aria-hidden': 'true' }, element('span', {}, filled)),
    element('td', { text: decimal(share, 4) }),
  );
}
