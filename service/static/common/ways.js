// The choice between the two ways into the page.

import { byId, renderRadios, within } from './dom.js';
import { speaker } from './strings.js';
import { ways } from '../strings/ways.js';

const say = speaker(ways);

/** The radio buttons of the two parts: the translator, and the explanation of attention. */
export class WayChoice {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    within(byId('way'), 'legend').textContent = say('legend');
    store.subscribe((view) => this.render(view));
  }

  /** Shows the choice of a view, and its part of the page. */
  render({ way }) {
    const options = ['translate', 'understand'].map((value) => ({
      value,
      label: say(value),
      title: say(`${value}Title`),
    }));
    renderRadios(byId('way'), 'way', options, way, (value) => this.store.set({ way: value }));
  }
}
