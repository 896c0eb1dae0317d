<?php
// What the PHP programs share: the environment that the test sets, and one
// "ok name" line for each check that passed.
define('HOST', getenv('LIMITDB_HOST'));
define('PORT', (int) getenv('LIMITDB_PORT'));
define('AUTH_PORT', (int) getenv('LIMITDB_AUTH_PORT'));
define('TLS_PORT', (int) getenv('LIMITDB_TLS_PORT'));
define('PASSWORD', getenv('LIMITDB_PASSWORD'));
define('CA', getenv('LIMITDB_CA'));
const ERROR = "Cell error: Store error: Couldn't parse as integer: sixty";

function key_(string $name): string
{
    return getenv('LIMITDB_KEY') . ':' . $name;
}

function ok(string $name, mixed $got, mixed $want): void
{
    if ($got !== $want) {
        fwrite(STDERR, "$name: got " . var_export($got, true) . ', want ' . var_export($want, true) . "\n");
        exit(1);
    }
    echo "ok $name\n";
}

// message returns the text of what $call throws, or ''.
function message(callable $call): string
{
    try {
        $call();
        return '';
    } catch (Exception $e) {
        return $e->getMessage();
    }
}
