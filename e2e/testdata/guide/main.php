<?php
// The driver of docs/clients.md's limiter: addr timeout-ms http-addr limit...
require __DIR__ . '/limiter.php';
error_reporting(E_ERROR);
[$host, $port] = explode(':', $argv[1]);
$limiter = new Limiter($host, (int) $port, array_slice($argv, 4), (int) $argv[2] / 1000);
$closed = new Limiter($host, (int) $port, array_slice($argv, 4), (int) $argv[2] / 1000, false);
while (($line = fgets(STDIN)) !== false) {
    $key = trim($line);
    $d = ($key === 'closed' ? $closed : $limiter)->take($key);
    echo $d[0] ? 'denied' : 'allowed', $d[5] ? ' away' : ' asked', "\n";
}
