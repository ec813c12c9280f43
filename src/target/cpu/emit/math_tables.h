// Polynomials by pieces, for processors that pick one of 16 floats a lane in one instruction. Minimax fits as those of
// math.cpp, each piece about a centre of its own; the first piece's is 0, where the function vanishes: there the constant
// term is 0 and the error relative to the argument.
#pragma once
#include "loop/program.h"

namespace opwright::target::cpu {

using loop::LookupTable;

// 2^(i / 16).
inline constexpr LookupTable kSixteenths = {
    0x1p+0, 0x1.0b5586p+0, 0x1.172b84p+0, 0x1.2387a6p+0, 0x1.306fep+0, 0x1.3dea64p+0, 0x1.4bfdaep+0, 0x1.5ab07ep+0,
    0x1.6a09e6p+0, 0x1.7a1148p+0, 0x1.8ace54p+0, 0x1.9c4918p+0, 0x1.ae89fap+0, 0x1.c199bep+0, 0x1.d5818ep+0,
    0x1.ea4afap+0};

// erf less the distance from the centre, whose part in it is then exact: piece i is within 1/8 of its centre i / 4. A row
// holds the coefficients of one power of the distance, the powers 0 to 5 in turn. The last piece rises half an ulp too much,
// so that it ends in 1.
inline constexpr LookupTable kErf[] = {
    {0x0p+0, 0x1.1af54ep-2, 0x1.0a7ef6p-1, 0x1.6c1c98p-1, 0x1.af767ap-1, 0x1.d8865ep-1, 0x1.eea556p-1, 0x1.f92d08p-1,
     0x1.fd9ae2p-1, 0x1.ff4048p-1, 0x1.ffcaa8p-1, 0x1.fff2dp-1, 0x1.fffd1ap-1, 0x1.ffff7p-1, 0x1.ffffe8p-1,
     0x1.fffffcp-1},
    {0x1.06eba8p-3, 0x1.eba2eep-5, -0x1.f0819ep-4, -0x1.6da378p-2, -0x1.2b7708p-1, -0x1.86e6b4p-1, -0x1.c31b92p-1,
     -0x1.e4faaep-1, -0x1.f56b24p-1, -0x1.fc57d8p-1, -0x1.fee27cp-1, -0x1.ffb328p-1, -0x1.ffedcp-1, -0x1.fffc2cp-1,
     -0x1.ffff4ap-1, -0x1.ffffep-1},
    {0x1.df62dcp-23, -0x1.0f5baap-2, -0x1.c1eep-2, -0x1.edc46ep-2, -0x1.a9121ap-2, -0x1.2ecp-2, -0x1.6d5bfap-3,
     -0x1.7a4bd6p-4, -0x1.529bc2p-5, -0x1.0749b8p-6, -0x1.64dd6ep-8, -0x1.a695cep-10, -0x1.b5f20cp-12,
     -0x1.8dbca8p-14, -0x1.3cdfecp-16, -0x1.6115bap-19},
    {-0x1.812ab8p-2, -0x1.3c9c9ep-2, -0x1.2bfcdep-3, 0x1.b6c246p-6, 0x1.1b5f34p-3, 0x1.571ce4p-3, 0x1.1c2aecp-3,
     0x1.714aaep-4, 0x1.8b0cep-5, 0x1.63f032p-6, 0x1.119c52p-7, 0x1.69c8fep-9, 0x1.9da80ep-11, 0x1.9a89eap-13,
     0x1.62a85ap-15, 0x1.4762a6p-17},
    {0x1.0e19e8p-12, 0x1.022274p-3, 0x1.748e84p-3, 0x1.3351f2p-3, 0x1.1bcffap-4, -0x1.73185ep-8, -0x1.69a6acp-5,
     -0x1.885482p-5, -0x1.1a14ep-5, -0x1.39c52ap-6, -0x1.1caef4p-7, -0x1.b024c4p-9, -0x1.1655p-10, -0x1.3300ap-12,
     -0x1.23bb96p-14, -0x1.dfc034p-17},
    {0x1.c7054ap-4, 0x1.4b169p-4, 0x1.0b64cp-7, -0x1.ade37ap-5, -0x1.1986dp-4, -0x1.81ec94p-5, -0x1.ec949ep-7,
     0x1.a5823ep-8, 0x1.a97cep-7, 0x1.5c8a82p-7, 0x1.92029cp-8, 0x1.6bda3ep-9, 0x1.0dafb6p-10, 0x1.4ea206p-12,
     0x1.6018bap-14, 0x1.3cd19ep-16},
};

// tanh: a piece is half an octave, the last of [8, 12), the first of [0, 3/32). The exponent and the first bit of the
// mantissa, modulo 16, are its place. First a row of centres, then one for each of the powers 0 to 6.
inline constexpr LookupTable kTanh[] = {
    {0x1.4p+1, 0x1.cp+1, 0x1.4p+2, 0x1.cp+2, 0x1.2p+3, 0x0p+0, 0x0p+0, 0x1.cp-4, 0x1.4p-3, 0x1.cp-3, 0x1.4p-2,
     0x1.cp-2, 0x1.4p-1, 0x1.cp-1, 0x1.4p+0, 0x1.cp+0},
    {0x1.f92582p-1, 0x1.ff112cp-1, 0x1.fff41ap-1, 0x1.ffffc8p-1, 0x1.fffffep-1, 0x0p+0, 0x0p+0, 0x1.be38d8p-4,
     0x1.3d6bc8p-3, 0x1.b8fd04p-3, 0x1.35f98ap-2, 0x1.a5729ep-2, 0x1.1bf47ep-1, 0x1.68665p-1, 0x1.b2523cp-1,
     0x1.e1fbfap-1},
    {0x1.b3b052p-6, 0x1.dd3a36p-9, 0x1.7d640ep-13, 0x1.bf1ca2p-19, 0x1.060d8ep-24, 0x0p+0, 0x1p+0, 0x1.f9ec6cp-1,
     0x1.f3b36p-1, 0x1.e842cap-1, 0x1.d11574p-1, 0x1.a945bap-1, 0x1.6284c4p-1, 0x1.02500ap-1, 0x1.1f250cp-2,
     0x1.d22c94p-4},
    {-0x1.add9dp-6, -0x1.dc5b14p-9, -0x1.7d49f2p-13, -0x1.bf092p-19, -0x1.06023cp-24, 0x0p+0, -0x1.ccf2f8p-27,
     -0x1.b8ed1ep-4, -0x1.35cbcp-3, -0x1.a48aaep-3, -0x1.19922p-2, -0x1.5e0f0ap-2, -0x1.893b5cp-2, -0x1.6ba7cep-2,
     -0x1.e72916p-3, -0x1.b6d84p-4},
    {0x1.16d084p-6, 0x1.3c1c1ap-9, 0x1.f25fe2p-14, 0x1.24299p-19, 0x1.56797p-25, 0x0p+0, -0x1.5554e6p-2,
     -0x1.45460cp-2, -0x1.352042p-2, -0x1.183afap-2, -0x1.c1a4bp-3, -0x1.16e21p-3, -0x1.24413cp-6, 0x1.4f12bp-4,
     0x1.bbb42ap-4, 0x1.01c10ap-4},
    {-0x1.07da08p-7, -0x1.39db3ap-10, -0x1.f2ee3ep-15, -0x1.24901cp-20, -0x1.56f20cp-26, 0x0p+0, -0x1.40201ep-14,
     0x1.20b7cp-4, 0x1.8e2d2ap-4, 0x1.04dccp-3, 0x1.43d2f8p-3, 0x1.5c2706p-3, 0x1.1a6cf6p-3, 0x1.f20f36p-5,
     -0x1.9c6ad2p-7, -0x1.8171eep-6},
    {0x1.7a70dep-9, 0x1.0118f2p-11, 0x1.ddd8a4p-16, 0x1.18b53cp-21, 0x1.490f56p-27, 0x0p+0, 0x1.144b1p-3,
     0x1.ec1bbap-4, 0x1.b7092p-4, 0x1.5bf1eap-4, 0x1.74c996p-5, -0x1.86b702p-8, -0x1.bd1eb4p-5, -0x1.df9f42p-5,
     -0x1.429cb2p-6, 0x1.c86d7cp-9},
    {-0x1.6cafe2p-11, -0x1.4af2ccp-13, -0x1.3c0934p-17, -0x1.741dfep-23, -0x1.b43b52p-29, 0x0p+0, -0x1.ec267p-7,
     -0x1.3ed0bcp-5, -0x1.abc60cp-5, -0x1.0b160ep-4, -0x1.28668p-4, -0x1.f968eep-5, -0x1.8f3922p-6, 0x1.a5280cp-7,
     0x1.eef4f2p-7, 0x1.1470b8p-9},
};

}  // namespace opwright::target::cpu
