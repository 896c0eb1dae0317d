// usage: node redis.js redis4|redis6
'use strict'
const c = require('./check.js')
const { assert, check, key } = c
const name = process.argv[2]
const { createClient } = require(name)

const open = async (options) => {
  const client = createClient(options)
  client.on('error', () => {}) // the reconnect below shows as one
  await client.connect()
  return client
}

c.main(async () => {
  const plain = { socket: { host: c.host, port: c.port } }
  const client = await open(plain)

  await check('ping', async () => assert.equal(await client.ping(), 'PONG'))
  await check('throttle', async () => assert.deepEqual(
    await client.sendCommand(['CL.THROTTLE', key('throttle'), '15', '30', '60']), [0, 16, 15, -1, 2]))
  await check('take', async () => assert.deepEqual(
    await client.sendCommand(['RL.TAKE', key('take'), 'GCRA', '5/m']), [0, 5, 4, -1, 12000]))
  await check('error', async () => assert.rejects(
    client.sendCommand(['CL.THROTTLE', key('error'), '15', '30', 'sixty']), { message: c.errorText }))
  await check('pipeline', async () => {
    // Commands that are issued in one tick go out as one pipeline.
    const replies = await Promise.all(Array.from({ length: 1000 }, () =>
      client.sendCommand(['CL.THROTTLE', key('pipeline'), '499', '1', '86400'])))
    assert.equal(replies.filter((r) => r[0] === 0).length, 500)
  })
  await check(name === 'redis6' ? 'resp3' : 'resp2', async () => {
    const proto = name === 'redis6' ? 3 : 2
    assert.match(await client.sendCommand(['CLIENT', 'INFO']), new RegExp(` resp=${proto}\\b`))
  })
  await check('setname', async () => {
    const named = await open({ ...plain, name: 'e2e-node' })
    assert.equal(await named.sendCommand(['CLIENT', 'GETNAME']), 'e2e-node')
    await named.disconnect()
  })
  await check('reconnect', async () => {
    const id = await client.sendCommand(['CLIENT', 'ID'])
    const reconnected = new Promise((resolve) => client.once('ready', resolve))
    const other = await open(plain)
    assert.equal(await other.sendCommand(['CLIENT', 'KILL', 'ID', String(id)]), 1)
    await other.disconnect()
    await reconnected
    assert.equal(await client.ping(), 'PONG')
    assert.notEqual(await client.sendCommand(['CLIENT', 'ID']), id)
  })
  await client.disconnect()

  await check('auth', async () => {
    const authed = await open({ socket: { host: c.host, port: c.authPort }, password: c.password })
    assert.equal(await authed.ping(), 'PONG')
    await authed.disconnect()
  })
  await check('wrongpass', async () => assert.rejects(
    open({ socket: { host: c.host, port: c.authPort, reconnectStrategy: false }, password: 'wrong' }), /WRONGPASS/))
  await check('tls', async () => {
    const secure = await open({ socket: { host: c.host, port: c.tlsPort, tls: true, ca: c.ca } })
    assert.equal(await secure.ping(), 'PONG')
    await secure.disconnect()
  })
})
