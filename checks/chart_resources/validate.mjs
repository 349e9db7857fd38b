// Validates custom resources of Kubernetes: `node validate.mjs MODULES <RESOURCES`.
//
// MODULES is the folder node_modules with the packages of checks/chart_tools.py. RESOURCES is a
// JSON list. Each fault is printed on a line of its own. The validators of the packages ignore
// fields that a schema does not have, so every field that no validator reads is a fault too.

import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const MONITORING = 'prometheus-operator/_schemas/ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1'
const VALIDATORS = {
  'keda.sh/v1alpha1/ScaledObject':
    'keda/_schemas/ComGithubKedacoreKedaV2ApisKedaV1alpha1ScaledObject',
  'monitoring.coreos.com/v1/ServiceMonitor': `${MONITORING}ServiceMonitor`,
  'monitoring.coreos.com/v1/PrometheusRule': `${MONITORING}PrometheusRule`,
  'gateway.networking.k8s.io/v1/HTTPRoute':
    'gateway-api/_schemas/IoK8sSigsGatewayApiApisV1HTTPRoute',
}

/** Returns a view of a value that adds the path of each field to `read` when the field is read. */
function watched (value, path, read) {
  if (value === null || typeof value !== 'object') return value
  return new Proxy(value, {
    get (target, key) {
      if (typeof key === 'symbol' || !Object.hasOwn(target, key)) return Reflect.get(target, key)
      read.add(`${path}/${key}`)
      return watched(target[key], `${path}/${key}`, read)
    }
  })
}

/** Yields the path of every field in a value. */
function * fields (value, path) {
  if (value === null || typeof value !== 'object') return
  for (const key of Object.keys(value)) {
    yield `${path}/${key}`
    yield * fields(value[key], `${path}/${key}`)
  }
}

const [, , modules] = process.argv
for (const resource of JSON.parse(readFileSync(0, 'utf8'))) {
  const kind = `${resource.apiVersion}/${resource.kind}`
  const name = VALIDATORS[kind]
  if (name === undefined) {
    console.log(`${kind}: there is no schema for this kind`)
    continue
  }
  const file = `${modules}/@kubernetes-models/${name}.js`
  const { validate } = await import(pathToFileURL(file).href)
  const read = new Set()
  const isValid = validate(watched(resource, '', read))
  for (const error of isValid ? [] : validate.errors) {
    console.log(`${kind}${error.instancePath}: ${error.keyword} ${JSON.stringify(error.params)}`)
  }
  for (const path of fields(resource, '')) {
    if (!read.has(path)) console.log(`${kind}${path}: the schema has no such field`)
  }
}
