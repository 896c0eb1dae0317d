<?php
// Drives Laravel's limiters, unmodified: each limits, and lets through again once its window is over.
require 'Illuminate/autoload.php';

use Illuminate\Cache\RateLimiter;
use Illuminate\Cache\RedisStore;
use Illuminate\Cache\Repository;
use Illuminate\Redis\RedisManager;

$key = getenv('LIMITDB_KEY');

function ok(string $name, mixed $got, mixed $want): void
{
    if ($got !== $want) {
        fwrite(STDERR, "$name: got " . var_export($got, true) . ', want ' . var_export($want, true) . "\n");
        exit(1);
    }
    echo "ok $name\n";
}

// recovers takes until the limiter denies, and then until it lets through again.
function recovers(callable $take): void
{
    while ($take()) {
        usleep(20000);
    }
    while (!$take()) {
        usleep(20000);
    }
}

$app = new Illuminate\Container\Container();
$redis = new RedisManager($app, 'phpredis', ['default' => ['host' => '127.0.0.1', 'port' => (int) getenv('LIMITDB_PORT'), 'database' => 0]]);
$store = new RedisStore($redis, "$key:");
$limiter = new RateLimiter(new Repository($store));

$got = [];
for ($i = 0; $i < 3; $i++) {
    $got[] = $limiter->attempt('user', 2, fn () => 'fine', 3600);
}
ok('Laravel, rate limiter', $got, ['fine', 'fine', false]);
$left = $limiter->availableIn('user');
ok('Laravel, available in', $left > 3000 && $left <= 3600, true);
recovers(fn () => $limiter->attempt('another', 2, fn () => 'fine', 1));
ok('Laravel, recovers', true, true);

$first = $store->lock('lock', 100);
$second = $store->lock('lock', 100);
ok('Laravel, lock', [$first->acquire(), $second->acquire(), $first->release(), $second->acquire(), $second->release()], [true, false, true, true, true]);

$connection = $redis->connection();
$got = [];
for ($i = 0; $i < 3; $i++) {
    $got[] = $connection->throttle("$key:throttle")->block(0)->allow(2)->every(3600)->then(fn () => 'fine', fn () => 'denied');
}
ok('Laravel, throttle', $got, ['fine', 'fine', 'denied']);
recovers(fn () => $connection->throttle("$key:short")->block(0)->allow(2)->every(1)->then(fn () => true, fn () => false));
$got = $connection->funnel("$key:funnel")->limit(1)->releaseAfter(100)->block(0)->then(
    fn () => $connection->funnel("$key:funnel")->limit(1)->releaseAfter(100)->block(0)->then(fn () => 'fine', fn () => 'denied'),
    fn () => 'outer denied');
ok('Laravel, funnel', $got, 'denied');
