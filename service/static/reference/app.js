// Loads the OpenAPI document of the server and shows its routes.

import { get } from '../common/api.js';
import { byId } from '../common/dom.js';
import { Notice } from '../common/notice.js';
import { routesOf } from './routes.js';

const notice = new Notice(byId('reference-notice'));

async function start() {
  try {
    const parts = routesOf(await get('openapi.json'));
    byId('routes').replaceChildren(...parts);
    notice.hide();
    document.getElementById(location.hash.slice(1))?.setAttribute('open', '');
  } catch (error) {
    notice.show(/** @type {ApiError} */ (error), start);
  }
}

start();
