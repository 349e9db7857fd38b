// The probabilities of the next token: what could have come instead of the pinned word?

import { LastReply, Latest } from '../common/api.js';
import { byId, element, setStale, setText, tokenParts } from '../common/dom.js';
import { withTerms } from '../common/glossary.js';
import { speaker } from '../common/strings.js';
import { decimal, percent, spoken, tokenName } from '../common/text.js';
import { likely } from '../strings/likely.js';
import { probabilitiesBody } from './attention.js';

const say = speaker(likely);

const SURE = 0.05; // Below this entropy, the model chose among 1.05 tokens or fewer.
const EXAMPLE = { pt: 'lago', en: 'lake' };

/** The panel with the likeliest tokens at the place of the pinned word of the translation. */
export class LikelyPanel {
  #latest = new Latest();
  #asked = new LastReply();

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
    this.root = byId('likely');
    byId('why-form').addEventListener('submit', (event) => {
      event.preventDefault();
      store.set({ named: byId('why').value.trim() });
    });
  }

  /** Hides the panel. */
  hide() {
    this.#latest.cancel();
    this.root.hidden = true;
  }

  /**
   * Shows the probabilities at the pinned token of a translation.
   * @param {View} view A view in which a token is pinned.
   * @param {Subject} subject
   */
  async show(view, subject) {
    if (view.task === 'embed' || view.kind === 'encoder') {
      this.hide();
      return;
    }
    this.root.hidden = false;
    if (document.activeElement !== byId('why')) byId('why').value = view.named;
    byId('why').placeholder = say('whyHint', { word: EXAMPLE[subject.target] ?? EXAMPLE.en });
    const body = probabilitiesBody(view, subject);
    setStale(this.root, true);
    await this.notice.guard(this.#latest, (signal) => this.#asked.post('attention', body, signal), ({ items }) => {
      setStale(this.root, false);
      this.curl.show('attention', body);
      this.#render(view, items[0]);
    });
  }

  #render({ query, named }, { target, probabilities }) {
    const place = Math.min(query, target.tokens.length - 1);
    const word = spoken(target.tokens[place]);
    setText(byId('likely-title'), say('title', { word }));
    const [, end] = target.offsets[place - 1] ?? [0, 0];
    const words = [...target.text].slice(0, end).join('');
    setText(byId('likely-before'), say(place > 0 ? 'before' : 'beforeFirst', { words }));
    const table = byId('likely-table');
    table.tBodies[0].replaceChildren(...tokenRows(target, probabilities, place));
    const facts = entropyWords(probabilities, place);
    byId('likely-entropy').replaceChildren(...facts.map((text) => element('p', {}, ...withTerms(text))));
    const told = named === '' ? [] : namedWords(named, probabilities, place);
    setText(byId('why-answer'), told.join(' '));
  }
}

/** Lists the likeliest tokens, and the written token if it is not among them. */
function tokenRows({ ids, tokens }, { likeliest, log_probs: logs, ranks }, place) {
  const found = likeliest.tokens[place].map((token, index) => ({
    token,
    log: likeliest.log_probs[place][index],
    rank: index + 1,
    isWritten: likeliest.ids[place][index] === ids[place],
  }));
  if (!found.some(({ isWritten }) => isWritten)) {
    found.push({ token: tokens[place], log: logs[place], rank: ranks[place], isWritten: true });
  }
  const shown = found.filter(({ log }) => log !== null);
  return shown.map(tokenRow);
}

function tokenRow({ token, log, rank, isWritten }) {
  const share = Math.exp(log);
  const filled = element('i');
  filled.style.setProperty('--share', String(share));
  return element(
    'tr',
    { class: isWritten ? 'top' : null },
    element('th', { scope: 'row' }, ...tokenParts(tokenName(token)), isWritten ? ` ${say('written')}` : ''),
    element('td', { text: String(rank) }),
    element('td', { class: 'part-bar', 'aria-hidden': 'true' }, element('span', {}, filled)),
    element('td', { text: percent(Math.exp(log)) }),
  );
}

/** Explains the entropy, and the number of candidates. */
function entropyWords({ entropies, num_candidates: count }, place) {
  const entropy = entropies[place];
  const values = { entropy: decimal(entropy, 2), count: decimal(Math.exp(entropy), 1) };
  return [say(entropy < SURE ? 'sure' : 'choices', values), say('candidates', { count })];
}

/** Compares a word that the reader has named. */
function namedWords(word, { named }, place) {
  const [token] = named.tokens;
  const log = named.log_probs[place][0];
  const shown = spoken(token);
  const words = [];
  if (shown !== word) words.push(say('firstToken', { word, token: shown }));
  if (log === null) return [...words, say('unchosen', { token: shown })];
  const rank = named.ranks[place][0];
  words.push(say('named', { token: shown, rank, probability: percent(Math.exp(log)) }));
  if (!named.is_candidate[0]) words.push(say('noCandidate'));
  return words;
}
