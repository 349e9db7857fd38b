// The schemas of an OpenAPI document: their fields and the names of their types.

import { speaker } from '../common/strings.js';
import { reference } from '../strings/reference.js';

const say = speaker(reference);
const MAX_DEPTH = 4; // Deeper fields are named by their type alone.

/** Reads schemas that refer to each other by name. */
export class Schemas {
  /** @param {Object<string, Json>} named The schemas of the document by name. */
  constructor(named) {
    this.named = named;
  }

  /** Returns a schema without a reference or a choice that allows null only in addition. */
  resolved(schema) {
    if (schema.$ref) return this.resolved(this.named[schema.$ref.split('/').at(-1)] ?? {});
    const choices = (schema.anyOf ?? []).filter(({ type }) => type !== 'null');
    return choices.length === 1 ? this.resolved({ ...choices[0] }) : schema;
  }

  /** Lists the fields of a schema, and below each object its own fields. */
  fields(schema, path = '', depth = 0) {
    const whole = this.resolved(schema);
    if (whole.type === 'array') return this.fields(whole.items ?? {}, `${path}[]`, depth + 1);
    const own = Object.entries(whole.properties ?? {});
    if (depth >= MAX_DEPTH) return [];
    return own.flatMap(([name, inner]) => {
      const full = path ? `${path}.${name}` : name;
      const required = whole.required?.includes(name) ?? false;
      return [{ name: full, schema: inner, required }, ...this.fields(inner, full, depth + 1)];
    });
  }

  /** Names the type of a schema. */
  typeOf(schema) {
    if (schema.$ref) return this.typeOf(this.resolved(schema));
    const choices = schema.anyOf ?? schema.oneOf;
    if (choices) return [...new Set(choices.map((each) => this.typeOf(each)))].join(' | ');
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    if (schema.type === 'array') return say('listOf', { type: this.typeOf(schema.items ?? {}) });
    return schema.type ?? say('any');
  }
}
