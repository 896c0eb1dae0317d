// The driver of docs/clients.md's limiters: library addr timeout-ms http-addr limit...
'use strict'
const [library, addr, timeout, http, ...limit] = process.argv.slice(2)
const { connect } = require(`./${library}.js`)
const [host, port] = addr.split(':')
const [{ take }, closed] = [true, false].map((open) => connect(host, Number(port), Number(timeout), limit, open))
const app = require('express')()
app.use(require('./middleware.js').limit(take))
app.get('/', (req, res) => res.send('hello\n'))
const [httpHost, httpPort] = http.split(':')
app.listen(Number(httpPort), httpHost)
const lines = require('readline').createInterface({ input: process.stdin })
let last = Promise.resolve()
lines.on('line', (key) => {
  last = last.then(() => (key === 'closed' ? closed.take : take)(key)).then((d) => console.log(d.limited ? 'denied' : 'allowed', d.away ? 'away' : 'asked'))
})
lines.on('close', () => last.then(() => process.exit(0)))
