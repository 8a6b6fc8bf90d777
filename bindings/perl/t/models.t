# The models of make_models.py, in the folder that GLUINO_TEST_MODELS names, give what Python computed.
use strict;
use warnings;
use Test::More;
use Gluino;

my $folder = $ENV{GLUINO_TEST_MODELS} or plan skip_all => 'GLUINO_TEST_MODELS names no folder of models';

sub read_cases {
  my ($name) = @_;
  open my $file, '<', "$folder/$name.cases" or die "$name.cases: $!";
  my (@cases, %case);
  while (my $line = <$file>) {
    my ($kind, undef, $dtype, $ndim, @rest) = split ' ', $line;
    if ($kind eq 'run') { push @cases, {%case}; %case = (); next }
    my @shape = splice @rest, 0, $ndim;
    push @{ $case{$kind} }, Gluino::Array->new(\@rest, shape => \@shape, dtype => $dtype);
  }
  return @cases;
}

sub is_close {
  my ($got, $want) = @_;
  return 0 if "@{ $got->shape }" ne "@{ $want->shape }";
  my ($a, $b) = (scalar $got->values, scalar $want->values);
  for (0 .. $#$b) { return 0 if !(abs($a->[$_] - $b->[$_]) <= 1e-6) }
  return 1;
}

sub as_python {
  my ($net, @cases) = @_;
  for my $case (@cases) {
    my @outputs = $net->predict(@{ $case->{input} });
    return 0 if @outputs != @{ $case->{output} };
    for (0 .. $#outputs) { return 0 if !is_close($outputs[$_], $case->{output}[$_]) }
  }
  return 1;
}

for my $name (qw(mlp conv loop embedding)) {
  my $net = Gluino::Model->load("$folder/$name-symbol.json");
  my @cases = read_cases($name);
  ok(as_python($net, (@cases) x 3), "$name gives what Python computed");
  # Perl's way to several at a time: the children go on with what the parent loaded.
  my @children = map {
    my $child = fork;
    if (!$child) { require POSIX; POSIX::_exit(as_python($net, @cases) ? 0 : 1) }
    $child;
  } 1 .. 3;
  my $failed = grep { waitpid($_, 0); $? } @children;
  is($failed, 0, "$name in three processes at a time");
}

my $net = Gluino::Model->load("$folder/mlp-symbol.json");
is_deeply([$net->inputs], [{ name => 'data', dtype => 'float32', shape => [-1, 8] }], 'inputs');
is_deeply([map { $_->{shape} } $net->outputs], [[-1, 3]], 'outputs');

sub slurp { local $/; open my $file, '<:raw', "$folder/$_[0]" or die $!; return scalar <$file> }
ok(as_python(Gluino::Model->from_memory(slurp('mlp-symbol.json'), slurp('mlp-0000.params')), read_cases('mlp')), 'from memory');

my $x = Gluino::Array->new([[1, 2], [3, 4]]);
is_deeply(scalar((1 - ($x + $x) / 2 * 3)->values), [-2, -5, -8, -11], 'arithmetic');
is_deeply(scalar($x->invoke('sum', axis => [1])->values), [3, 7], 'operators by name');
is(scalar(my @parts = $x->invoke('split', num_outputs => 2)), 2, 'several outputs');
is(Gluino::Array->new([1, 2], dtype => 'int64')->dtype, 'int64', 'dtypes');

ok(!eval { Gluino::Model->load('/nowhere-symbol.json'); 1 }, 'a missing file dies');
isa_ok($@, 'Gluino::Error');
is($@->code, 'GLUINO_ERROR_SYSTEM', 'code');
like("$@", qr{/nowhere-symbol.json}, 'message');
ok(!eval { Gluino::invoke('broadcast_ad', [$x, $x]); 1 }, 'a wrong name dies');
is($@->hint, "did you mean 'broadcast_add'?", 'hint');
ok(!eval { $net->predict($x); 1 } && $@->code eq 'GLUINO_ERROR_SHAPE', 'a wrong shape dies');

my $before = Gluino::memory();
for (1 .. 20) { my $again = Gluino::Model->load("$folder/mlp-symbol.json"); $again->predict((read_cases('mlp'))[0]{input}[0]) for 1 .. 2 }
is_deeply([@{ Gluino::memory() }{qw(models arrays)}], [@$before{qw(models arrays)}], 'nothing is left behind');

done_testing;
