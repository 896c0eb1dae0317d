<?php
// Drives limitdb with Predis, which is written in PHP.
require __DIR__ . '/check.php';
require 'Predis/Autoloader.php';
Predis\Autoloader::register();

$client = new Predis\Client(['host' => HOST, 'port' => PORT]);
ok('ping', (string) $client->ping(), 'PONG');
ok('throttle', $client->executeRaw(['CL.THROTTLE', key_('throttle'), '15', '30', '60']), [0, 16, 15, -1, 2]);
ok('take', $client->executeRaw(['RL.TAKE', key_('take'), 'GCRA', '5/m']), [0, 5, 4, -1, 12000]);
$failed = false;
$text = $client->executeRaw(['CL.THROTTLE', key_('error'), '15', '30', 'sixty'], $failed);
ok('error', [$failed, $text], [true, ERROR]);
ok('setname', [(string) $client->client('SETNAME', 'e2e-php'), $client->client('GETNAME')], ['OK', 'e2e-php']);

// Predis can put a command that it does not know into a pipeline as a RawCommand.
$replies = $client->pipeline(function ($pipe) {
    for ($i = 0; $i < 1000; $i++) {
        $pipe->executeCommand(new Predis\Command\RawCommand(['CL.THROTTLE', key_('pipeline'), 499, 1, 86400]));
    }
});
ok('pipeline', count(array_filter($replies, fn ($r) => $r[0] === 0)), 500);

$id = $client->executeRaw(['CLIENT', 'ID']);
$other = new Predis\Client(['host' => HOST, 'port' => PORT]);
ok('kill', $other->executeRaw(['CLIENT', 'KILL', 'ID', $id]), 1);
ok('closed', message(fn () => $client->ping()) !== '', true);
ok('reconnect', [(string) $client->ping(), $client->executeRaw(['CLIENT', 'ID']) !== $id], ['PONG', true]);

$authed = new Predis\Client(['host' => HOST, 'port' => AUTH_PORT, 'password' => PASSWORD]);
ok('auth', (string) $authed->ping(), 'PONG');
$wrong = new Predis\Client(['host' => HOST, 'port' => AUTH_PORT, 'password' => 'wrong']);
ok('wrongpass', str_contains(message(fn () => $wrong->ping()), 'WRONGPASS'), true);

$secure = new Predis\Client(['scheme' => 'tls', 'host' => HOST, 'port' => TLS_PORT, 'timeout' => 120, 'ssl' => ['cafile' => CA]]);
ok('tls', (string) $secure->ping(), 'PONG');
