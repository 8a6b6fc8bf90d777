use strict;
use warnings;
use Test::More;
use Pod::Checker;

my $checker = Pod::Checker->new(-quiet => 1);
open my $nowhere, '>', \my $said;
$checker->parse_from_file('lib/Gluino.pm', $nowhere);
is($checker->num_errors, 0, 'the documentation is whole') or diag $said;
done_testing;
