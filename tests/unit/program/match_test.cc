#include "program/match.h"

#include "program/program_text.h"
#include "support/support.h"

namespace gluino::test {
namespace {

using Numbers = std::vector<double>;

std::optional<Numbers> matched(const char* text, const Pattern& pattern) { return match(parse_program(text), pattern); }

TEST(Match, SeesTheStructureWhateverTheOrderOfInstructions) {
  const Pattern relu([](Pattern& p) { return select(p.input(0) > 0.0, p.input(0), 0.0); });
  EXPECT_EQ(matched("f32 x0 0 greater(0,1) select(2,0,1)", relu), Numbers());
  EXPECT_EQ(matched("f32 0 0 x0 greater(2,1) select(3,2,0)", relu), Numbers());
  EXPECT_EQ(matched("f64 x0 0 greater(0,1) select(2,0,1)", relu), Numbers());
  EXPECT_FALSE(matched("f32 x0 0 greater(0,1) select(2,1,0)", relu));
  EXPECT_FALSE(matched("f32 x0 0 lesser(0,1) select(2,0,1)", relu));
  EXPECT_FALSE(matched("f32 x0 0 greater(0,1)", relu));
}

TEST(Match, GivesTheOpenNumbersInOrder) {
  const Pattern clipped([](Pattern& p) {
    const Expr low = p.any_number(), high = p.any_number();
    return minimum(maximum(p.input(0), low), high);
  });
  EXPECT_EQ(matched("f32 x0 -1 maximum(0,1) 6 minimum(2,3)", clipped), (Numbers{-1, 6}));
  EXPECT_EQ(matched("f32 6 x0 -1.5 maximum(1,2) minimum(3,0)", clipped), (Numbers{-1.5, 6}));
  EXPECT_FALSE(matched("f32 x0 x1 maximum(0,1) 6 minimum(2,3)", clipped));
  EXPECT_FALSE(matched("f32 x0 6 minimum(0,1) -1 maximum(2,3)", clipped));
}

TEST(Match, AnOpenNumberUsedTwiceIsOneNumber) {
  const Pattern pattern([](Pattern& p) {
    const Expr a = p.any_number();
    return p.input(0) * a + a;
  });
  EXPECT_EQ(matched("f32 x0 3 multiply(0,1) 3 add(2,3)", pattern), (Numbers{3}));
  EXPECT_FALSE(matched("f32 x0 3 multiply(0,1) 4 add(2,3)", pattern));
}

TEST(Match, TellsInputsAndZerosApart) {
  const Pattern sum([](Pattern& p) { return p.input(0) + p.input(1); });
  EXPECT_TRUE(matched("f32 x0 x1 add(0,1)", sum));
  EXPECT_FALSE(matched("f32 x0 x1 add(1,0)", sum));
  EXPECT_FALSE(matched("f32 x0 add(0,0)", sum));
  const Pattern positive([](Pattern& p) { return maximum(p.input(0), 0.0); });
  EXPECT_TRUE(matched("f32 x0 0 maximum(0,1)", positive));
  EXPECT_FALSE(matched("f32 x0 -0 maximum(0,1)", positive));
}

TEST(Match, AsksForOneResultWhereverItStands) {
  const Pattern scaled([](Pattern& p) { return p.input(0) * p.any_number(); });
  EXPECT_EQ(matched("f32 x0 2 multiply(0,1) exp(2) -> 2", scaled), (Numbers{2}));
  EXPECT_FALSE(matched("f32 x0 2 multiply(0,1) exp(2) -> 2,3", scaled));
  EXPECT_FALSE(match(Program(ComputeType::f32), scaled));
}

}  // namespace
}  // namespace gluino::test
