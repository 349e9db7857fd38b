// The opening of Understand: who are “they”? Two heads answer, and their answers differ.

import { Latest } from '../common/api.js';
import { button, element, setText } from '../common/dom.js';
import { withTerms } from '../common/glossary.js';
import { Notice } from '../common/notice.js';
import { speaker } from '../common/strings.js';
import { percent } from '../common/text.js';
import { opening } from '../strings/opening.js';
import * as kids from './kids.js';
import { OwnTest } from './owntest.js';
import { Reading } from './reading.js';

const say = speaker(opening);

/**
 * The answers of the two heads; null for a head whose model the server does not have.
 * @typedef {import('./reading.js').Answer} Answer
 * @typedef {Object} Answers
 * @property {Answer|null} embedder
 * @property {Answer|null} translator
 * @property {{he: number, she: number}|null} pronoun
 */

/** The sentence of the kids with the arc of a head, and the same with another head. */
export class Opening {
  #latest = new Latest();
  /** @type {Answers|null} */
  #answers = null;
  #isAsked = false;
  #isChanged = false; // Whether the reader has changed the sentence.

  constructor() {
    /** @type {Store|null} */
    this.store = null;
    /** @type {Models|null} */
    this.models = null;
    const choose = (index) => this.#choose(index);
    this.swap = button('', () => this.#toggle('swapped'));
    this.swapHere = button('', () => this.#toggle('swapped'));
    this.turn = button('', () => this.#toggle('turned'));
    const swaps = element('p', { class: 'actions swaps' }, this.swap, this.turn);
    this.first = new Reading('first', choose, swaps);
    this.second = new Reading('second', choose);
    this.notice = new Notice();
    this.missing = element('p', { class: 'hint', hidden: true });
    this.translation = element('div', { class: 'translation' });
    this.twist = element(
      'div',
      { class: 'twist', hidden: true },
      element('h3', { text: say('twistTitle') }),
      element('p', { text: say('twist') }),
      this.second.root,
      element('p', { class: 'actions swaps' }, this.swapHere),
      this.translation,
    );
    this.test = new OwnTest();
    this.tells = element('ul', { class: 'points' });
    this.evidence = element(
      'div',
      { hidden: true },
      element('h3', { text: say('tellsTitle') }),
      this.tells,
      this.test.root,
    );
    this.root = element(
      'section',
      { id: 'opening', class: 'waiting', 'aria-labelledby': 'opening-title' },
      element('h2', { id: 'opening-title', text: say('title') }),
      element('p', { class: 'lead' }, ...withTerms(say('lead'))),
      this.first.root,
      this.notice.root,
      this.missing,
      this.twist,
      this.evidence,
    );
  }

  /**
   * Connects the opening to the view and to the models of the server.
   * @param {Object} served
   * @param {Store} served.store
   * @param {Models} served.models
   */
  connect({ store, models }) {
    Object.assign(this, { store, models });
  }

  /** Shows the sentence of a view, and its arcs as soon as the models have read it. */
  show(view) {
    const { text, other } = kids.sentenceOf(view);
    setText(this.swap, say(view.swapped ? 'swapBack' : 'swap'));
    setText(this.swapHere, say(view.swapped ? 'swapBackHere' : 'swapHere'));
    setText(this.turn, say('turn', { text: other }));
    const from = chosenWord(view);
    this.first.read(text, from);
    this.second.read(text, from);
    if (this.#answers !== null) this.#render(view);
    else if (this.models && !this.#isAsked) this.#load();
  }

  #toggle(name) {
    const { store } = this;
    store?.set({ [name]: !store.view[name], from: null });
  }

  /** Shows at what a word looks; the word `they` is the usual one. */
  #choose(index) {
    const { store } = this;
    if (store === null) return;
    const they = kids.placeOfThey(kids.sentenceOf(store.view).text);
    store.set({ from: index === they ? null : index });
  }

  async #load() {
    this.#isAsked = true;
    await this.notice.guard(this.#latest, (signal) => this.#ask(signal), (answers) => {
      this.#answers = answers;
      this.test.show([answers.embedder, answers.translator].filter((answer) => answer !== null));
      this.#render(/** @type {Store} */ (this.store).view);
    });
  }

  /** Asks each head that the server has about all four sentences. */
  async #ask(signal) {
    const find = async (known) => {
      const read = { task: 'translate', model: known.model, ...known.subject };
      const model = await /** @type {Models} */ (this.models).find(read, signal);
      if (model?.id !== known.model || !model.attention?.encoder) return null;
      return { known, model, readings: await kids.readHead(known, signal) };
    };
    const embedder = await find(kids.EMBEDDER_HEAD);
    const translator = await find(kids.TRANSLATOR_HEAD);
    const pronoun = translator && (await kids.readPronoun(kids.FORMS[0].text, signal));
    return { embedder, translator, pronoun };
  }

  #render(view) {
    this.root.classList.remove('waiting');
    const { embedder, translator } = this.#known;
    const sentence = kids.sentenceOf(view);
    this.#sayMissing();
    this.twist.hidden = translator === null;
    this.evidence.hidden = embedder === null && translator === null;
    this.first.hide(embedder === null && translator !== null);
    const from = chosenWord(view);
    if (embedder) this.first.show(embedder, sentence, from, (word) => verdict(word, sentence, view));
    else setText(this.first.readout, '');
    this.#isChanged ||= view.swapped || view.turned;
    const isChanged = this.#isChanged;
    if (translator) {
      const twist = (word) => (isChanged ? twistVerdict(translator, sentence, word) : '');
      this.second.show(translator, sentence, from, twist);
    }
    this.translation.replaceChildren(...translationParts(translator, sentence, isChanged));
    this.tells.replaceChildren(...this.#points());
  }

  get #known() {
    return /** @type {Answers} */ (this.#answers);
  }

  #sayMissing() {
    const { embedder, translator } = this.#known;
    const name = embedder ? 'noTranslator' : 'noEmbedder';
    const { model } = embedder ? kids.TRANSLATOR_HEAD : kids.EMBEDDER_HEAD;
    this.missing.hidden = embedder !== null && translator !== null;
    setText(this.missing, embedder || translator ? say(name, { model }) : say('nothing'));
  }

  #points() {
    const { translator, pronoun } = this.#known;
    const points = [say('tells')];
    if (translator) {
      const { layers, heads } = translator.model.attention.encoder;
      points.push(say('oneOfMany', { heads: layers * heads }));
    }
    if (pronoun) {
      const [he, she] = [percent(pronoun.he), percent(pronoun.she)];
      points.push(say('notWhy', { he, she }));
    }
    return points.map((words) => element('li', {}, ...withTerms(words)));
  }
}

/** Returns the number of the word whose attention the opening shows. */
function chosenWord(view) {
  const { from } = view;
  const words = kids.wordsOf(kids.sentenceOf(view).text);
  return from !== null && from < words.length ? from : words.indexOf('they');
}

function verdict(word, sentence, { swapped }) {
  const { scared, first } = sentence;
  if (word === scared) return say(swapped ? 'follows' : 'agrees', { scared });
  if (!['kids', 'lions'].includes(word)) return say('elsewhere');
  return say(word === first ? 'first' : 'differs', { word, scared });
}

/** Names the word at which the second head looks, and compares the four sentences. */
function twistVerdict({ readings }, { scared }, word) {
  const answers = new Set(kids.FORMS.map(({ text }) => readings.get(text)?.they[0].word));
  if (answers.size > 1 || !answers.has('kids')) return say('twistOther', { word });
  return say(word === scared ? 'twistAgrees' : 'twistSame', { word, scared });
}

/** Returns the translation. After a change, a sentence about its word for `they` is added. */
function translationParts(translator, { text }, isChanged) {
  const written = translator?.readings.get(text)?.translation;
  if (!written) return [];
  const quoted = element('q', { lang: 'pt', text: written });
  const shown = element('p', {}, say('translates'), ' ', quoted);
  const pronouns = kids.FORMS.map((form) => pronounOf(translator.readings.get(form.text)?.translation));
  const [pronoun] = pronouns;
  const isSame = isChanged && pronoun !== null && pronouns.every((other) => other === pronoun);
  return [shown, ...(isSame ? [element('p', { text: say('pronounSame', { pronoun }) })] : [])];
}

const pronounOf = (translation) => /\bel[ea]s\b/.exec(translation ?? '')?.[0] ?? null;
