#!/usr/bin/perl
# Microseconds of one call, the best of many rounds: bench.pl net-symbol.json
use strict;
use warnings;
use Gluino;

my $net = Gluino::Model->load($ARGV[0]);
my $x = Gluino::Array->new([(0) x 512], shape => [1, 512]);
my $best = 1e30;
for (1 .. 10) {
  my ($start) = times;
  $net->predict($x) for 1 .. 5000;
  my $us = ((times)[0] - $start) / 5000 * 1e6;
  $best = $us if $us < $best;
}
printf "{\"Perl\": %.3f}\n", $best;
