#!/usr/bin/perl
# classify.pl net-symbol.json: runs the network on two rows of numbers and names the largest output of each.
use strict;
use warnings;
use Gluino;

my $net   = Gluino::Model->load($ARGV[0] // die "which model?\n");
my ($in)  = $net->inputs;
my @shape = map { $_ < 0 ? 2 : $_ } @{ $in->{shape} };
my $count = 1;
$count *= $_ for @shape;
my $y = $net->predict(Gluino::Array->new([map { sin } 1 .. $count], shape => \@shape));
print "row $_ is of class ", ($y->invoke('argmax', axis => 1)->values)[$_], "\n" for 0 .. $shape[0] - 1;
