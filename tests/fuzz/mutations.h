// Damage to files, from a fixed random sequence.
#pragma once
#include <random>
#include <string>
#include <vector>

namespace gluino::fuzz {

// One of the seeds with one to four small damages, of which some take bytes of another seed.
std::string mutated(const std::vector<std::string>& seeds, std::mt19937_64& random);

}  // namespace gluino::fuzz
