// The second way into the page: attention explained with the numbers of the running models.

import { byId, element } from '../common/dom.js';
import { Notice } from '../common/notice.js';
import { speaker } from '../common/strings.js';
import { opening } from '../strings/opening.js';
import { Opening } from './opening.js';
import { Story } from './story.js';
import { endOf } from './summary.js';
import { Toy } from './toy.js';

const say = speaker(opening);

/** The explanation of attention. It is built when the reader first comes to it. */
export class UnderstandPanel {
  /** @type {{store: Store, models: Models, languages: Languages}|null} */
  #served = null;
  /** @type {Opening|null} */
  #opening = null;
  /** @type {Toy|null} */
  #toy = null;
  /** @type {Story|null} */
  #story = null;

  /** @param {Opening|null} opening The opening, if it is on the page already. */
  constructor(opening) {
    this.#opening = opening;
    this.root = byId('understand');
    this.content = opening?.root.parentElement ?? element('div');
    const notice = element('div', { class: 'notice', hidden: true });
    /** Tells that the page could not be started. */
    this.notice = new Notice(notice);
    this.root.prepend(notice);
    if (opening === null) this.root.append(this.content);
    this.root.setAttribute('aria-label', say('section'));
  }

  /**
   * Connects the explanation to the view and to the models of the server.
   * @param {Object} served
   * @param {Store} served.store
   * @param {Models} served.models
   * @param {Languages} served.languages
   */
  connect(served) {
    this.#served = served;
    this.#connect();
    served.store.subscribe((view) => this.show(view));
    this.show(served.store.view);
  }

  /** Shows a view, if it is one of this part of the page. */
  show(view) {
    if (view.way !== 'understand') return;
    if (this.#opening === null) this.#build();
    this.#opening?.show(view);
    this.#toy?.show(view);
    this.#story?.show(view);
  }

  #build() {
    const first = new Opening();
    this.#opening = first;
    this.content.replaceChildren(first.root);
    this.#connect();
  }

  /** Connects the parts and adds the ones that need the server, once both are there. */
  #connect() {
    if (this.#served === null || this.#opening === null) return;
    const { store } = this.#served;
    this.#opening.connect(this.#served);
    this.#toy = new Toy(store);
    this.#story = new Story(this.#served);
    this.content.append(this.#toy.root, this.#story.root, ...endOf(store));
  }
}
