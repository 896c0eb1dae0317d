<?php
// Drives limitdb with phpredis, the C extension.
require __DIR__ . '/check.php';

$client = new Redis();
$client->connect(HOST, PORT);
ok('ping', $client->ping(), true);
ok('throttle', $client->rawCommand('CL.THROTTLE', key_('throttle'), 15, 30, 60), [0, 16, 15, -1, 2]);
ok('take', $client->rawCommand('RL.TAKE', key_('take'), 'GCRA', '5/m'), [0, 5, 4, -1, 12000]);
// phpredis throws an exception for an error that does not begin with ERR.
ok('error', message(fn () => $client->rawCommand('CL.THROTTLE', key_('error'), 15, 30, 'sixty')), ERROR);
ok('setname', [$client->client('setname', 'e2e-php'), $client->client('getname')], [true, 'e2e-php']);

$pipe = $client->pipeline();
for ($i = 0; $i < 1000; $i++) {
    $pipe->rawCommand('CL.THROTTLE', key_('pipeline'), 499, 1, 86400);
}
ok('pipeline', count(array_filter($pipe->exec(), fn ($r) => $r[0] === 0)), 500);

$id = $client->rawCommand('CLIENT', 'ID');
$other = new Redis();
$other->connect(HOST, PORT);
ok('kill', $other->rawCommand('CLIENT', 'KILL', 'ID', $id), 1);
// Wait until the connection is closed: if it closes between writing a command and
// reading its reply, phpredis does not send the command again, but waits for the reply.
while ($other->rawCommand('CLIENT', 'LIST', 'ID', $id) !== '') {
    usleep(1000);
}
ok('reconnect', [$client->ping(), $client->rawCommand('CLIENT', 'ID') !== $id], [true, true]);

$authed = new Redis();
$authed->connect(HOST, AUTH_PORT);
ok('auth', [$authed->auth(PASSWORD), $authed->ping()], [true, true]);
$wrong = new Redis();
$wrong->connect(HOST, AUTH_PORT);
ok('wrongpass', str_starts_with(message(fn () => $wrong->auth('wrong')), 'WRONGPASS'), true);

$secure = new Redis();
$secure->connect('tls://' . HOST, TLS_PORT, 120, null, 0, 0, ['stream' => ['cafile' => CA]]);
ok('tls', $secure->ping(), true);
