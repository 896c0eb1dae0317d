// usage: node limiters.js
// Drives limiters for Node.js, unmodified: each limits, and lets through again once its window is over.
'use strict'
const c = require('./check.js')
const { assert, check, key } = c
const Redis = require('ioredis5')
const { RateLimiterRedis, RateLimiterRedisNonAtomic } = require('rate-limiter-flexible')
const { RedisStore } = require('rate-limit-redis')
const { rateLimit } = require('express-rate-limit')
const express = require('express')
const fastify = require('fastify')
const Bottleneck = require('bottleneck')
const Redlock = require('redlock')

// until calls fn until it returns something true. A test that never succeeds ends with the time limit of the process.
const until = async (fn) => {
  for (;;) {
    const got = await fn()
    if (got) return got
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

// recovers takes until the limiter denies, and then until it lets through again.
const recovers = async (take) => {
  await until(async () => !await take())
  await until(take)
}

// get returns the status of a request and its headers.
const get = async (port, path = '/') => {
  const res = await fetch(`http://127.0.0.1:${port}${path}`)
  await res.text()
  return res
}

const listen = (app) => new Promise((resolve) => { const s = app.listen(0, '127.0.0.1', () => resolve(s)) })

c.main(async () => {
  const client = new Redis({ host: c.host, port: c.port })

  await check('rate-limiter-flexible', async () => {
    const limiter = new RateLimiterRedis({ storeClient: client, keyPrefix: key('flexible'), points: 3, duration: 3600 })
    for (const left of [2, 1, 0]) {
      const r = await limiter.consume('user')
      assert.equal(r.remainingPoints, left)
      assert(r.msBeforeNext > 0 && r.msBeforeNext <= 3600000)
    }
    await assert.rejects(limiter.consume('user'), { remainingPoints: 0, consumedPoints: 4 })
    assert.equal((await limiter.get('user')).consumedPoints, 4)
    const short = new RateLimiterRedis({ storeClient: client, keyPrefix: key('flexible-short'), points: 3, duration: 1 })
    await recovers(() => short.consume('user').catch(() => false))
    await limiter.penalty('user', 5)
    await limiter.reward('user', 1)
    assert.equal((await limiter.get('user')).consumedPoints, 8)
    await limiter.block('user', 100)
    await assert.rejects(limiter.consume('user'))
    assert.equal(await limiter.delete('user'), true)
    assert.equal(await limiter.get('user'), null)
  })
  await check('rate-limiter-flexible, not atomic', async () => {
    const limiter = new RateLimiterRedisNonAtomic({ storeClient: client, keyPrefix: key('nonatomic'), points: 2, duration: 3600 })
    await limiter.consume('user')
    await limiter.consume('user')
    await assert.rejects(limiter.consume('user'), { remainingPoints: 0 })
    const short = new RateLimiterRedisNonAtomic({ storeClient: client, keyPrefix: key('nonatomic-short'), points: 2, duration: 1 })
    await recovers(() => short.consume('user').catch(() => false))
  })
  await check('express-rate-limit', async () => {
    const app = express()
    for (const [path, windowMs] of [['/', 1000], ['/hour', 3600000]]) {
      app.get(path, rateLimit({
        windowMs, limit: 2, standardHeaders: 'draft-8', legacyHeaders: false,
        store: new RedisStore({ prefix: key('express') + path + ':', sendCommand: (...args) => client.call(...args) })
      }), (_, res) => res.send('fine'))
    }
    const server = await listen(app)
    const port = server.address().port
    assert.deepEqual([(await get(port, '/hour')).status, (await get(port, '/hour')).status], [200, 200])
    const denied = await get(port, '/hour')
    assert.equal(denied.status, 429)
    assert.match(denied.headers.get('retry-after'), /^3[56]\d\d$/)
    await recovers(async () => (await get(port)).status === 200)
    server.close()
  })
  await check('@fastify/rate-limit', async () => {
    const app = fastify()
    await app.register(require('@fastify/rate-limit'), { global: false, redis: client, nameSpace: key('fastify') + ':' })
    app.get('/', { config: { rateLimit: { max: 2, timeWindow: 1000 } } }, async () => 'fine')
    app.get('/hour', { config: { rateLimit: { max: 2, timeWindow: 3600000 } } }, async () => 'fine')
    const status = async (path) => (await app.inject(path)).statusCode
    assert.deepEqual([await status('/hour'), await status('/hour'), await status('/hour')], [200, 200, 429])
    await recovers(async () => await status('/') === 200)
    await app.close()
  })
  await check('bottleneck', async () => {
    const limiter = new Bottleneck({
      id: key('bottleneck'), datastore: 'ioredis', Redis, clientOptions: { host: c.host, port: c.port },
      reservoir: 2, maxConcurrent: 1, clearDatastore: true
    })
    limiter.on('error', (err) => { throw err })
    assert.equal(await limiter.schedule(async () => 'a'), 'a')
    assert.equal(await limiter.schedule(async () => 'b'), 'b')
    assert.equal(await limiter.currentReservoir(), 0)
    const third = limiter.schedule(async () => 'c')
    await limiter.incrementReservoir(1)
    assert.equal(await third, 'c')
    await limiter.disconnect()
  })
  await check('redlock', async () => {
    const redlock = new Redlock([client], { retryCount: 0 })
    const lock = await redlock.lock(key('redlock'), 100000)
    await assert.rejects(redlock.lock(key('redlock'), 100000), { name: 'LockError' })
    await lock.extend(200000)
    await lock.unlock()
    await (await redlock.lock(key('redlock'), 100000)).unlock()
  })
  await check('redlock 5', async () => {
    const { default: Redlock, ExecutionError } = await import('redlock5')
    const redlock = new Redlock([client], { retryCount: 0 })
    const names = [key('redlock5-a'), key('redlock5-b')]
    const lock = await redlock.acquire(names, 100000)
    await assert.rejects(redlock.acquire([names[1]], 100000), ExecutionError)
    await (await lock.extend(200000)).release()
    await (await redlock.acquire(names, 100000)).release()
  })
  client.disconnect()
})
