// usage: node cluster.js ioredis5|ioredis6|redis6 key[*n] host:port…
// Takes from one key again and again through a cluster of nodes, or from n in turn, until its input ends, and prints how often a
// request was answered.
'use strict'
const [name, spec, ...nodes] = process.argv.slice(2)
const [key, many] = spec.split('*')
const library = require(name)

// ioredis returns a function that sends a command.
const ioredis = () => {
  const cluster = new library.Cluster(nodes.map((n) => ({ host: n.split(':')[0], port: Number(n.split(':')[1]) })), {
    clusterRetryStrategy: () => 100,
    redisOptions: { connectTimeout: 1000, maxRetriesPerRequest: 1 },
  })
  cluster.on('error', () => {})
  return (words) => cluster.call(...words)
}

// redis returns that of node-redis. Without a queue for commands while it is not connected, a command to a node that is lost is an error.
const redis = async () => {
  const cluster = library.createCluster({
    rootNodes: nodes.map((n) => ({ url: 'redis://' + n })),
    defaults: { disableOfflineQueue: true, socket: { connectTimeout: 1000, reconnectStrategy: () => 100 } },
  })
  cluster.on('error', () => {})
  await cluster.connect()
  return (words) => cluster.sendCommand(words[1], false, words)
}

let over = false
process.stdin.on('end', () => { over = true }).resume()

const run = async () => {
  const send = name.startsWith('ioredis') ? ioredis() : await redis()
  for (let answered = 0; !over;) {
    try {
      await send(['RL.TAKE', many ? `${key}:${answered % many}` : key, 'GCRA', '1/h', 'BURST', '1000000'])
      if (++answered % 10 === 0) console.log(`answered ${answered}`)
    } catch (err) {
      console.log(`error ${err.message}`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}
run().then(() => process.exit(0), (err) => { console.log(`error ${err.message}`); process.exit(1) })
