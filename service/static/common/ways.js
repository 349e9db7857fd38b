// The choice between the parts of the page.

import { page } from '../strings/page.js';
import { byId, changed, fillMenu, renderRadios, within } from './dom.js';
import { FIRST } from './state.js';
import { speaker } from './strings.js';

const say = speaker(page);

/** The parts, and the views that show them: to compare texts, the translator's field embeds them. */
const WAYS = {
  translate: { way: 'translate', task: 'translate' },
  documents: { way: 'documents' },
  compare: { way: 'translate', task: 'embed' },
  understand: { way: 'understand' },
};

/** The radio buttons of the parts, and the menu of embedding models. */
export class WayChoice {
  /**
   * @param {Store} store
   * @param {string[]} embedders Names of models; without one, no texts are compared.
   */
  constructor(store, embedders) {
    this.store = store;
    this.embedders = embedders;
    within(byId('way'), 'legend').textContent = say('part');
    byId('embedder').addEventListener('change', (event) => {
      store.set({ model: changed(event).value, ...FIRST });
    });
    store.subscribe((view) => this.render(view));
  }

  /** Shows the choice of a view, and its part of the page. */
  render({ way, task, model }) {
    const { embedders } = this;
    const served = Object.keys(WAYS).filter((name) => name !== 'compare' || embedders.length > 0);
    const options = served.map((value) => ({ value, label: say(value) }));
    const chosen = way === 'translate' && task === 'embed' ? 'compare' : way;
    renderRadios(byId('way'), 'way', options, chosen, (value) => this.#choose(value));
    byId('translate').dataset.task = task;
    byId('text-label').textContent = say(task === 'embed' ? 'textToEmbed' : 'textToTranslate');
    byId('embedder-choice').hidden = task !== 'embed' || embedders.length < 2;
    fillMenu(byId('embedder'), embedders.map((name) => [name, name]), model ?? embedders[0] ?? '');
  }

  #choose(name) {
    // After a click, the arrow keys act on the part below. With the keyboard, the focus stays here.
    const { activeElement: here } = document;
    if (here instanceof HTMLInputElement && !here.matches(':focus-visible')) here.blur();
    const { task = this.store.view.task, ...change } = WAYS[name];
    this.store.set(task === this.store.view.task ? change : { ...change, task, ...FIRST });
  }
}
