// The reader's own test: do the two heads treat other nouns like the kids and the lions?

import { Latest } from '../common/api.js';
import { button, element, folded, setText } from '../common/dom.js';
import { Notice } from '../common/notice.js';
import { speaker } from '../common/strings.js';
import { percent } from '../common/text.js';
import { opening } from '../strings/opening.js';
import { scrolling } from './figures.js';
import * as kids from './kids.js';

const say = speaker(opening);

const NOUN = /^[a-z]{2,20}$/;

/** Nouns that can be scared, and can scare: the pairs that the page tries. */
const PAIRS = (
  'kids lions,teachers students,doctors patients,dogs cats,boys girls,soldiers farmers,birds snakes,wolves sheep,' +
  'players fans,thieves guards,actors critics,parents neighbours,workers managers,cats mice,nurses visitors,' +
  'tourists pirates,hunters bears,sailors whales,kings rebels,monkeys tigers,bakers customers,singers dancers,' +
  'goats foxes,horses riders'
)
  .split(',')
  .map((pair) => pair.split(' '));

/** Reports whether a head does in all four sentences of a pair what it does with the kids. */
function holds({ known, readings }, nouns) {
  const forms = kids.formsOf(nouns);
  const words = forms.map(({ text }) => readings.get(text).they[0].word);
  if (known === kids.EMBEDDER_HEAD) return words.every((word, index) => word === forms[index].first);
  return nouns.includes(words[0]) && words.every((word) => word === words[0]);
}

/** A fold with two fields for nouns, the table of their four sentences, and the counts. */
export class OwnTest {
  #latest = new Latest();
  /** @type {Array<import('./reading.js').Answer>} */
  #answers = [];
  #nouns = kids.NOUNS;
  /** @type {string[][]} The pairs of the reader. */
  #tried = [];
  #hasTriedOurs = false;

  constructor() {
    this.notice = new Notice();
    this.fields = [0, 1].map((index) =>
      element('input', {
        ...{ id: `noun-${index}`, type: 'text', lang: 'en', maxlength: 20, value: kids.NOUNS[index] },
        ...{ autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false', 'aria-describedby': 'nouns-warning' },
      }),
    );
    const labelled = this.fields.flatMap((field, index) => [
      element('label', { for: field.id, text: say(index ? 'noun2' : 'noun1') }),
      field,
    ]);
    const onsubmit = (event) => {
      event.preventDefault();
      this.#submit();
    };
    const ours = button(say('ours', { count: PAIRS.length }), () => this.#try(PAIRS));
    const submit = element('button', { type: 'submit', text: say('try') });
    this.warning = element('p', { id: 'nouns-warning', class: 'hint', role: 'alert' });
    this.table = element('table');
    this.counts = element('ul', { class: 'points' });
    this.root = folded(
      say('testTitle'),
      element('p', { text: say('testLead') }),
      element('form', { class: 'lesson', onsubmit }, ...labelled, submit, ours),
      this.warning,
      this.notice.root,
      element('div', { role: 'status' }, this.counts),
      scrolling(say('tableTitle'), this.table),
    );
    this.root.id = 'owntest';
  }

  /** Shows what two heads do with the kids and the lions. */
  show(answers) {
    this.#answers = answers;
    this.#render();
  }

  #submit() {
    const nouns = this.fields.map(({ value }) => value.trim().toLowerCase());
    const isGood = nouns.every((noun) => NOUN.test(noun)) && nouns[0] !== nouns[1];
    setText(this.warning, isGood ? '' : say('badNouns'));
    if (!isGood) return;
    if (!this.#tried.some((pair) => pair.join() === nouns.join())) this.#tried.push(nouns);
    this.#nouns = nouns;
    this.#try([nouns]);
  }

  /** Asks each head about the sentences of some pairs. */
  async #try(pairs) {
    const texts = pairs.flatMap((nouns) => kids.formsOf(nouns).map(({ text }) => text));
    const ask = (signal) => Promise.all(this.#answers.map(({ known }) => kids.readHead(known, signal, texts)));
    await this.notice.guard(this.#latest, ask, (found) => {
      found.forEach((readings, index) => {
        for (const [text, reading] of readings) this.#answers[index].readings.set(text, reading);
      });
      this.#hasTriedOurs ||= pairs === PAIRS;
      this.#render();
      this.counts.scrollIntoView({ block: 'nearest' });
    });
  }

  #render() {
    const answers = this.#answers;
    const heads = answers.map(({ known: { model, layer, head } }) =>
      say('tableHead', { model, layer: layer + 1, head: head + 1 }),
    );
    const names = [say('tableSentence'), say('tableFirst'), ...heads];
    const rows = kids.formsOf(this.#nouns).filter(({ text }) => answers.every(({ readings }) => readings.has(text)));
    this.table.replaceChildren(
      element('thead', {}, element('tr', {}, ...names.map((text) => element('th', { scope: 'col', text })))),
      element('tbody', {}, ...rows.map((form) => rowOf(form, answers))),
    );
    const counts = answers.flatMap((answer) => [
      this.#count(answer, this.#tried, 'yours'),
      this.#hasTriedOurs ? this.#count(answer, PAIRS, 'ofOurs') : '',
    ]);
    this.counts.replaceChildren(...counts.filter(Boolean).map((text) => element('li', { text })));
  }

  #count(answer, pairs, name) {
    const isRead = (nouns) => kids.formsOf(nouns).every(({ text }) => answer.readings.has(text));
    const known = pairs.filter(isRead);
    if (known.length === 0) return '';
    const claim = say(answer.known === kids.EMBEDDER_HEAD ? 'claimFirst' : 'claimSame', { model: answer.known.model });
    return say(name, { claim, held: known.filter((nouns) => holds(answer, nouns)).length, count: known.length });
  }
}

function rowOf({ text, first }, answers) {
  const cells = answers.map(({ readings }) => {
    const [{ word, share }] = readings.get(text).they;
    return element('td', { text: `${word} ${percent(share)}` });
  });
  const name = element('th', { scope: 'row', lang: 'en', text });
  return element('tr', {}, name, element('td', { text: first, lang: 'en' }), ...cells);
}
