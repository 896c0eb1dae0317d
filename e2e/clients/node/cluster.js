// usage: node cluster.js ioredis5|ioredis6 key host:port…
// Takes from one key again and again through a cluster of nodes, until its input ends, and prints how often a
// request was answered.
'use strict'
const [name, key, ...nodes] = process.argv.slice(2)
const { Cluster } = require(name)

const cluster = new Cluster(nodes.map((n) => ({ host: n.split(':')[0], port: Number(n.split(':')[1]) })), {
  clusterRetryStrategy: () => 100,
  redisOptions: { connectTimeout: 1000, maxRetriesPerRequest: 1 },
})
cluster.on('error', () => {})
let over = false
process.stdin.on('end', () => { over = true }).resume()

const run = async () => {
  let answered = 0
  while (!over) {
    try {
      await cluster.call('RL.TAKE', key, 'GCRA', '1/h', 'BURST', '1000000')
      if (++answered % 10 === 0) console.log(`answered ${answered}`)
    } catch (err) {
      console.log(`error ${err.message}`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  cluster.disconnect()
}
run().then(() => process.exit(0))
