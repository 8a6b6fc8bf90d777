package Gluino;
use strict;
use warnings;
use 5.014;
use Carp ();
use FFI::Platypus 1.00;
use FFI::Platypus::Buffer qw(scalar_to_pointer);

our $VERSION = '0.1.0';

# ---- the C interface

my $ffi = FFI::Platypus->new(api => 1, lib => [_library()]);

sub _library {
  return "$ENV{GLUINO_LIB}/libgluino_c.so" if $ENV{GLUINO_LIB};
  require FFI::CheckLib;
  my $found = FFI::CheckLib::find_lib(lib => 'gluino_c');
  return $found // Carp::croak('libgluino_c was not found; install Gluino, or set GLUINO_LIB to the folder that has it');
}

my %call;
sub _attach {
  my ($name, $arguments, $result) = @_;
  $call{$name} = $ffi->function("gluino_$name" => $arguments => $result);
}
_attach($_, [], 'string') for qw(version last_error_message last_error_hint);
_attach(status_name              => ['int'], 'string');
_attach(dtype_name               => ['sint32'], 'string');
_attach(model_load               => ['string', 'string', 'opaque', 'uint64*'], 'int');
_attach(model_load_memory        => ['opaque', 'size_t', 'opaque', 'size_t', 'opaque', 'uint64*'], 'int');
_attach(model_free               => ['uint64'], 'int');
_attach("model_num_${_}s"        => ['uint64', 'size_t*'], 'int') for qw(input output);
_attach("model_$_"               => ['uint64', 'size_t', 'opaque'], 'int') for qw(input output);
_attach(model_predict            => ['uint64', 'opaque', 'size_t', 'opaque', 'size_t'], 'int');
_attach(array_create             => ['sint32', 'sint32', 'opaque', 'opaque', 'size_t', 'uint64*'], 'int');
_attach(array_free               => ['uint64'], 'int');
_attach(array_info               => ['uint64', 'opaque'], 'int');
_attach(array_read               => ['uint64', 'opaque', 'size_t'], 'int');
_attach(invoke                   => ['string', 'opaque', 'size_t', 'string[]', 'string[]', 'size_t', 'opaque', 'size_t*'], 'int');
_attach(set_num_threads          => ['int'], 'int');
_attach(memory_statistics        => ['int', 'opaque'], 'int');

# dtype: number, size of an element, letter of pack
my %DTYPE = (
  float32 => [0, 4, 'f'], float64 => [1, 8, 'd'], float16 => [2, 2, 'S'], uint8 => [3, 1, 'C'], int32 => [4, 4, 'l'],
  int8 => [5, 1, 'c'], int64 => [6, 8, 'q'], bool => [7, 1, 'C'], bfloat16 => [12, 2, 'S'],
);
my %NAME_OF = map { $DTYPE{$_}[0] => $_ } keys %DTYPE;

# As gluino_buffer in c_api.h: data, bytes, dtype, ndim, 32 extents, strides.
my $BUFFER      = 'Q Q l l q32 Q';
my $BUFFER_SIZE = length pack $BUFFER, (0) x 37;

sub _check {
  my ($status) = @_;
  return if $status == 0;
  die Gluino::Error->new(
    code => $call{status_name}->call($status), message => $call{last_error_message}->call, hint => $call{last_error_hint}->call);
}

sub version { $call{version}->call }
sub set_num_threads { _check($call{set_num_threads}->call($_[-1])) }

sub memory {
  my $bytes = "\0" x 48;
  _check($call{memory_statistics}->call(0, scalar_to_pointer($bytes)));
  my %memory;
  @memory{qw(live peak cached allocations models arrays)} = unpack 'q6', $bytes;
  return \%memory;
}

sub invoke {
  my ($name, $inputs, %attributes) = @_;
  my @keys    = sort keys %attributes;
  my $handles = pack 'Q*', map { $_->{handle} } @$inputs;
  my @values  = map { _attribute($attributes{$_}) } @keys;
  my $room    = 1;
  while (1) {
    my $outputs = "\0" x (8 * $room);
    my $count   = $room;
    my $status  = $call{invoke}->call($name, scalar_to_pointer($handles), scalar @$inputs, \@keys, \@values, scalar @keys,
      scalar_to_pointer($outputs), \$count);
    if ($count > $room) { $room = $count; next }
    _check($status);
    my @arrays = map { Gluino::Array->_own($_) } unpack "Q$count", $outputs;
    return wantarray ? @arrays : $arrays[0];
  }
}

sub _attribute {
  my ($value) = @_;
  return 'None' if !defined $value;
  return ref $value ? '(' . join(', ', @$value) . (@$value == 1 ? ',)' : ')') : "$value";
}

# ---- errors

package Gluino::Error;
use overload '""' => sub { $_[0]{message} . "\n" }, fallback => 1;

sub new { my ($class, %fields) = @_; return bless {%fields}, $class }
sub code    { $_[0]{code} }
sub message { $_[0]{message} }
sub hint    { $_[0]{hint} }

# ---- arrays

package Gluino::Array;
use FFI::Platypus::Buffer qw(scalar_to_pointer);
use overload
  '+' => sub { _arithmetic('_plus_scalar',  '_plus_scalar',   'broadcast_add', @_) },
  '-' => sub { _arithmetic('_minus_scalar', '_rminus_scalar', 'broadcast_sub', @_) },
  '*' => sub { _arithmetic('_mul_scalar',   '_mul_scalar',    'broadcast_mul', @_) },
  '/' => sub { _arithmetic('_div_scalar',   '_rdiv_scalar',   'broadcast_div', @_) };

sub new {
  my ($class, $values, %options) = @_;
  my @shape = @{ $options{shape} // _shape_of($values) };
  my $dtype = $DTYPE{ $options{dtype} // 'float32' } // Carp::croak("'$options{dtype}' is no dtype");
  my $bytes = pack "$dtype->[2]*", _flat($values);
  my $extents = pack 'q*', @shape;
  my $handle;
  Gluino::_check($call{array_create}->call($dtype->[0], scalar @shape, scalar_to_pointer($extents), scalar_to_pointer($bytes), length $bytes, \$handle));
  return $class->_own($handle);
}

sub _own { my ($class, $handle) = @_; return bless { handle => $handle }, $class }
sub _flat { map { ref $_ ? _flat($_) : $_ } @{ $_[0] } }
sub _shape_of { my ($v) = @_; my @shape; while (ref $v) { push @shape, scalar @$v; $v = $v->[0] } return \@shape }

sub _buffer {
  my ($self) = @_;
  my $bytes = "\0" x $BUFFER_SIZE;
  Gluino::_check($call{array_info}->call($self->{handle}, scalar_to_pointer($bytes)));
  return $bytes;
}
sub shape { my @b = unpack $BUFFER, $_[0]->_buffer; return [@b[4 .. 3 + $b[3]]] }
sub dtype { my @b = unpack $BUFFER, $_[0]->_buffer; return $NAME_OF{ $b[2] } }

sub values {
  my ($self) = @_;
  my (undef, $size, $dtype) = unpack $BUFFER, $self->_buffer;
  my $bytes = "\0" x $size;
  Gluino::_check($call{array_read}->call($self->{handle}, scalar_to_pointer($bytes), $size));
  my @values = unpack "$DTYPE{$NAME_OF{$dtype}}[2]*", $bytes;
  return wantarray ? @values : \@values;
}

sub invoke { my ($self, $name, %attributes) = @_; return Gluino::invoke($name, [$self], %attributes) }

sub _arithmetic {
  my ($scalar, $swapped_scalar, $elementwise, $a, $b, $swapped) = @_;
  return Gluino::invoke($elementwise, $swapped ? [$b, $a] : [$a, $b]) if ref $b;
  return $a->invoke($swapped ? $swapped_scalar : $scalar, scalar => $b);
}

sub DESTROY { my ($self) = @_; $call{array_free}->call($self->{handle}) if $self->{handle} }

# ---- models

package Gluino::Model;
use FFI::Platypus::Buffer qw(scalar_to_pointer);

sub load {
  my ($class, $path, $params) = @_;
  my $handle;
  Gluino::_check($call{model_load}->call($path, $params, undef, \$handle));
  return bless { handle => $handle }, $class;
}

sub from_memory {
  my ($class, $graph, $params) = @_;
  my $handle;
  Gluino::_check($call{model_load_memory}->call(scalar_to_pointer($graph), length $graph,
    defined $params ? scalar_to_pointer($params) : undef, length($params // ''), undef, \$handle));
  return bless { handle => $handle }, $class;
}

sub _values {
  my ($self, $kind) = @_;
  my $count;
  Gluino::_check($call{"model_num_${kind}s"}->call($self->{handle}, \$count));
  return map {
    my $info = "\0" x (16 + 32 * 8);
    Gluino::_check($call{"model_$kind"}->call($self->{handle}, $_, scalar_to_pointer($info)));
    my ($name, $dtype, $ndim, @shape) = unpack 'Q l l q32', $info;
    +{ name => $ffi->cast('opaque' => 'string', $name), dtype => $NAME_OF{$dtype}, shape => $ndim < 0 ? undef : [@shape[0 .. $ndim - 1]] };
  } 0 .. $count - 1;
}
sub inputs  { $_[0]->_values('input') }
sub outputs { $_[0]->_values('output') }

sub predict {
  my ($self, @inputs) = @_;
  my $buffers = join '', map { $_->_buffer } @inputs;
  my $count;
  Gluino::_check($call{model_num_outputs}->call($self->{handle}, \$count));
  my $outputs = "\0" x (8 * $count);
  Gluino::_check($call{model_predict}->call($self->{handle}, scalar_to_pointer($buffers), scalar @inputs, scalar_to_pointer($outputs), $count));
  my @arrays = map { Gluino::Array->_own($_) } unpack "Q$count", $outputs;
  return wantarray ? @arrays : $arrays[0];
}

sub DESTROY { my ($self) = @_; $call{model_free}->call($self->{handle}) if $self->{handle} }

1;

__END__

=encoding utf8

=head1 NAME

Gluino - loads and runs networks exported by Gluino and MXNet

=head1 SYNOPSIS

  use Gluino;

  my $net = Gluino::Model->load('net-symbol.json');   # the parameters are found beside it
  my $x   = Gluino::Array->new([[1, 2, 3], [4, 5, 6]]);
  my $y   = $net->predict($x);
  print join(' ', @{ $y->shape }), ': ', join(' ', $y->values), "\n";

  my $probabilities = $y->invoke('softmax', axis => -1);
  my $mean          = ($x + $x) / 2;

=head1 DESCRIPTION

A module over Gluino's C interface, with L<FFI::Platypus>. It looks for F<libgluino_c.so> where the system looks for libraries, or in the
folder that the environment variable C<GLUINO_LIB> names.

=head2 Gluino::Model

=over

=item C<< load($path, $params) >>

A graph, as F<net-symbol.json>, with the parameters at C<$params> or the only ones beside it; or a model in one file.

=item C<< from_memory($graph, $params) >>

The same from bytes.

=item C<inputs>, C<outputs>

Lists of C<< {name, dtype, shape} >>. An extent of -1 may change from call to call; a shape that is not known before the call is undefined.

=item C<< predict(@arrays) >>

Runs the network. Gives its outputs as arrays, in scalar context the first.

=back

=head2 Gluino::Array

=over

=item C<< new($values, shape => [2, 3], dtype => 'int32') >>

From a list of lists, or a flat list with a shape; float32 unless said otherwise.

=item C<shape>, C<dtype>, C<values>

What the array is; the values come as a flat list in row-major order.

=item C<+ - * />

With arrays, which are broadcast, and with numbers.

=item C<< invoke($name, %attributes) >>

Any operator by its name in MXNet. A list stands for a tuple: C<< $x->invoke('sum', axis => [0, 1]) >>.

=back

=head2 Functions

C<Gluino::invoke($name, \@arrays, %attributes)>, C<Gluino::set_num_threads($n)>, C<Gluino::memory()>, C<Gluino::version()>.

=head1 ERRORS

What goes wrong dies with a C<Gluino::Error>, which has C<code>, C<message> and C<hint>: what to do.

=head1 LICENSE

Apache 2.0.

=cut
