// usage: node ioredis.js ioredis5|ioredis6
'use strict'
const c = require('./check.js')
const { assert, check, key } = c
const name = process.argv[2]
const lib = require(name)
const Redis = lib.Redis ?? lib

c.main(async () => {
  const client = new Redis({ host: c.host, port: c.port })
  client.on('error', () => {}) // the reconnect below shows as one

  await check('ping', async () => assert.equal(await client.ping(), 'PONG'))
  await check('throttle', async () => assert.deepEqual(
    await client.call('CL.THROTTLE', key('throttle'), '15', '30', '60'), [0, 16, 15, -1, 2]))
  await check('take', async () => assert.deepEqual(
    await client.call('RL.TAKE', key('take'), 'GCRA', '5/m'), [0, 5, 4, -1, 12000]))
  await check('error', async () => assert.rejects(
    client.call('CL.THROTTLE', key('error'), '15', '30', 'sixty'),
    { name: 'ReplyError', message: c.errorText }))
  await check('pipeline', async () => {
    const p = client.pipeline()
    for (let i = 0; i < 1000; i++) p.call('CL.THROTTLE', key('pipeline'), '499', '1', '86400')
    const replies = await p.exec()
    assert.equal(replies.length, 1000)
    assert.equal(replies.filter(([err, r]) => err === null && r[0] === 0).length, 500)
  })
  await check(name === 'ioredis6' ? 'resp3' : 'resp2', async () => {
    const proto = name === 'ioredis6' ? 3 : 2
    assert.match(await client.client('INFO'), new RegExp(` resp=${proto}\\b`))
  })
  await check('setname', async () => {
    const named = new Redis({ host: c.host, port: c.port, connectionName: 'e2e-node' })
    assert.equal(await named.client('GETNAME'), 'e2e-node')
    named.disconnect()
  })
  await check('reconnect', async () => {
    const id = await client.client('ID')
    const other = new Redis({ host: c.host, port: c.port })
    assert.equal(await other.client('KILL', 'ID', id), 1)
    other.disconnect()
    // The command that meets the closed socket is retried by the library.
    assert.equal(await client.ping(), 'PONG')
    assert.notEqual(await client.client('ID'), id)
  })
  client.disconnect()

  await check('auth', async () => {
    const authed = new Redis({ host: c.host, port: c.authPort, password: c.password })
    assert.equal(await authed.ping(), 'PONG')
    authed.disconnect()
  })
  await check('wrongpass', async () => {
    const wrong = new Redis({ host: c.host, port: c.authPort, password: 'wrong', retryStrategy: () => null, maxRetriesPerRequest: 0 })
    const failed = new Promise((resolve) => wrong.on('error', resolve))
    wrong.ping().catch(() => {})
    assert.match((await failed).message, /WRONGPASS/)
    wrong.disconnect()
  })
  await check('tls', async () => {
    const secure = new Redis({ host: c.host, port: c.tlsPort, tls: { ca: c.ca } })
    assert.equal(await secure.ping(), 'PONG')
    secure.disconnect()
  })
})
