// The second way into the page: attention explained with the numbers of the running models.

import { byId, element } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { opening } from '../strings/opening.js';
import { Opening } from './opening.js';
import { Story } from './story.js';
import { endOf } from './summary.js';
import { Toy } from './toy.js';

const say = speaker(opening);

/** The explanation of attention. Its opening needs no server, and is shown at once. */
export class UnderstandPanel {
  #opening = new Opening();
  /** @type {Toy|null} */
  #toy = null;
  /** @type {Story|null} */
  #story = null;

  /** @param {Readonly<View>} view */
  constructor(view) {
    this.content = element('div', {}, this.#opening.root);
    byId('understand').append(this.content);
    byId('understand').setAttribute('aria-label', say('section'));
    this.#opening.show(view);
  }

  /**
   * Connects the explanation to the view and to the models of the server.
   * @param {Object} served
   * @param {Store} served.store
   * @param {Models} served.models
   * @param {Languages} served.languages
   */
  connect(served) {
    const { store } = served;
    this.#opening.connect(served);
    this.#toy = new Toy(store);
    this.#story = new Story(served);
    this.content.append(this.#toy.root, this.#story.root, this.#story.switches.root, ...endOf(store));
    this.show(store.view);
  }

  /** Shows a view of this part of the page. */
  show(view) {
    this.#opening.show(view);
    this.#toy?.show(view);
    this.#story?.show(view);
  }
}
