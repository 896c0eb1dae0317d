# Drives limitdb with Perl's Redis.
use strict;
use warnings;
use Redis;

my $host = $ENV{LIMITDB_HOST};
my $addr = "$host:$ENV{LIMITDB_PORT}";
my $text = "Cell error: Store error: Couldn't parse as integer: sixty";

sub key { return "$ENV{LIMITDB_KEY}:$_[0]" }

sub ok {
    my ($name, $got, $want) = @_;
    die "$name: got '$got', want '$want'\n" if $got ne $want;
    print "ok $name\n";
}

# command sends a command whose name is not a valid Perl identifier.
sub command {
    my ($client, $name, @args) = @_;
    return $client->__std_cmd($name, @args);
}

my $client = Redis->new(server => $addr, name => 'e2e-perl', reconnect => 5, every => 1000);
ok('ping', $client->ping, 'PONG');
ok('throttle', join(' ', command($client, 'CL.THROTTLE', key('throttle'), 15, 30, 60)), '0 16 15 -1 2');
ok('take', join(' ', command($client, 'RL.TAKE', key('take'), 'GCRA', '5/m')), '0 5 4 -1 12000');
eval { command($client, 'CL.THROTTLE', key('error'), 15, 30, 'sixty'); 1 };
ok('error', index($@, "[CL.THROTTLE] $text,") >= 0 ? 'found' : $@, 'found');
ok('setname', $client->client_getname, 'e2e-perl');

my $allowed = 0;
for (1 .. 1000) {
    $client->__run_cmd('CL.THROTTLE', 0, undef, sub { $allowed++ if $_[0][0] == 0 }, key('pipeline'), 499, 1, 86400);
}
$client->wait_all_responses;
ok('pipeline', $allowed, 500);

my $id = command($client, 'CLIENT', 'ID');
my $other = Redis->new(server => $addr);
my $killed = command($other, 'CLIENT', 'KILL', 'ID', $id);
ok('reconnect', join(' ', $killed, $client->ping, command($client, 'CLIENT', 'ID') == $id ? 'same' : 'new'), '1 PONG new');

my $authed = Redis->new(server => "$host:$ENV{LIMITDB_AUTH_PORT}", password => $ENV{LIMITDB_PASSWORD});
ok('auth', $authed->ping, 'PONG');
eval { Redis->new(server => "$host:$ENV{LIMITDB_AUTH_PORT}", password => 'wrong'); 1 };
ok('wrongpass', $@ =~ /refused password|WRONGPASS/ ? 'refused' : $@, 'refused');
