// What the Node.js programs share: the environment that the test sets, and
// one "ok name" line for each check that passed.
'use strict'
const assert = require('node:assert/strict')
const fs = require('node:fs')

const env = process.env
exports.assert = assert
exports.host = env.LIMITDB_HOST
exports.port = Number(env.LIMITDB_PORT)
exports.authPort = Number(env.LIMITDB_AUTH_PORT)
exports.tlsPort = Number(env.LIMITDB_TLS_PORT)
exports.password = env.LIMITDB_PASSWORD
exports.ca = fs.readFileSync(env.LIMITDB_CA)
exports.key = (name) => `${env.LIMITDB_KEY}:${name}`
exports.errorText = "Cell error: Store error: Couldn't parse as integer: sixty"

exports.check = async (name, fn) => {
  await fn()
  console.log(`ok ${name}`)
}

// main runs fn and ends the process. If fn throws, it prints the stack and exits with 1.
exports.main = (fn) => {
  fn().then(() => process.exit(0), (err) => {
    console.error(err)
    process.exit(1)
  })
}
