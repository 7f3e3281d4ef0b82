/* SPDX-License-Identifier: MIT */
/* SPDX-FileCopyrightText: 2026 the blrc authors */
/* The head: log softmax base 2 of integer scores, and what an ensemble says, in integers. blrc/head.py is its law.
 *
 * d = (largest score - score) x multiplier >> shift, rounded: bits by which a class lies behind, Q16, at most 31.
 * log2 p = -(d + log2(sum of 2^-d)), floored at -24 bits. Both tables are interpolated linearly. */
#include "blrc.h"

#define BLRC_HEAD_CAP ((uint32_t)31 << 16) /* of d */
#define BLRC_HEAD_FLOOR ((uint32_t)24 << 16) /* log2 p is at least minus this */

/* 2^30 x 2^(-j/256), rounded */
static BLRC_STORED const uint32_t blrc_head_exp2_table[257] = {
    1073741824u, 1070838486u, 1067942999u, 1065055341u, 1062175491u, 1059303428u, 1056439131u, 1053582579u,
    1050733751u, 1047892626u, 1045059183u, 1042233401u, 1039415261u, 1036604740u, 1033801819u, 1031006477u,
    1028218693u, 1025438448u, 1022665720u, 1019900489u, 1017142735u, 1014392438u, 1011649578u, 1008914134u,
    1006186087u, 1003465416u, 1000752102u, 998046124u, 995347464u, 992656100u, 989972014u, 987295185u,
    984625594u, 981963222u, 979308048u, 976660054u, 974019220u, 971385527u, 968758955u, 966139485u,
    963527098u, 960921775u, 958323496u, 955732243u, 953147997u, 950570738u, 948000448u, 945437108u,
    942880699u, 940331203u, 937788600u, 935252872u, 932724001u, 930201967u, 927686753u, 925178340u,
    922676710u, 920181844u, 917693724u, 915212331u, 912737649u, 910269657u, 907808339u, 905353676u,
    902905651u, 900464244u, 898029440u, 895601218u, 893179563u, 890764456u, 888355878u, 885953814u,
    883558244u, 881169153u, 878786521u, 876410331u, 874040567u, 871677210u, 869320244u, 866969651u,
    864625413u, 862287515u, 859955938u, 857630665u, 855311680u, 852998965u, 850692504u, 848392279u,
    846098274u, 843810471u, 841528855u, 839253408u, 836984114u, 834720956u, 832463917u, 830212982u,
    827968132u, 825729353u, 823496627u, 821269938u, 819049271u, 816834607u, 814625932u, 812423229u,
    810226483u, 808035676u, 805850792u, 803671817u, 801498734u, 799331526u, 797170178u, 795014675u,
    792865000u, 790721137u, 788583072u, 786450787u, 784324269u, 782203500u, 780088465u, 777979150u,
    775875538u, 773777614u, 771685363u, 769598769u, 767517817u, 765442492u, 763372778u, 761308661u,
    759250125u, 757197155u, 755149737u, 753107854u, 751071493u, 749040637u, 747015274u, 744995386u,
    742980960u, 740971982u, 738968435u, 736970306u, 734977579u, 732990241u, 731008277u, 729031671u,
    727060411u, 725094480u, 723133865u, 721178552u, 719228525u, 717283772u, 715344277u, 713410026u,
    711481005u, 709557200u, 707638598u, 705725183u, 703816941u, 701913860u, 700015924u, 698123120u,
    696235434u, 694352853u, 692475362u, 690602947u, 688735596u, 686873293u, 685016026u, 683163781u,
    681316545u, 679474303u, 677637043u, 675804750u, 673977412u, 672155015u, 670337545u, 668524990u,
    666717336u, 664914570u, 663116678u, 661323648u, 659535466u, 657752119u, 655973594u, 654199878u,
    652430958u, 650666822u, 648907455u, 647152846u, 645402981u, 643657847u, 641917433u, 640181724u,
    638450708u, 636724373u, 635002706u, 633285695u, 631573326u, 629865587u, 628162466u, 626463950u,
    624770026u, 623080683u, 621395908u, 619715688u, 618040012u, 616368866u, 614702239u, 613040119u,
    611382493u, 609729349u, 608080675u, 606436459u, 604796689u, 603161352u, 601530438u, 599903933u,
    598281827u, 596664106u, 595050760u, 593441776u, 591837143u, 590236848u, 588640881u, 587049229u,
    585461881u, 583878825u, 582300049u, 580725543u, 579155293u, 577589290u, 576027521u, 574469975u,
    572916640u, 571367506u, 569822560u, 568281792u, 566745190u, 565212742u, 563684439u, 562160268u,
    560640218u, 559124278u, 557612438u, 556104685u, 554601009u, 553101399u, 551605844u, 550114332u,
    548626854u, 547143398u, 545663953u, 544188508u, 542717053u, 541249576u, 539786068u, 538326517u,
    536870912u
};

/* 2^24 x log2(1 + j/256), rounded */
static BLRC_STORED const uint32_t blrc_head_log2_table[257] = {
    0u, 94364u, 188362u, 281996u, 375270u, 468185u, 560745u, 652952u, 744810u, 836320u,
    927485u, 1018309u, 1108793u, 1198939u, 1288752u, 1378232u, 1467383u, 1556207u, 1644705u, 1732882u,
    1820738u, 1908277u, 1995500u, 2082410u, 2169009u, 2255299u, 2341283u, 2426963u, 2512340u, 2597417u,
    2682196u, 2766679u, 2850868u, 2934766u, 3018374u, 3101694u, 3184728u, 3267478u, 3349946u, 3432134u,
    3514044u, 3595678u, 3677038u, 3758124u, 3838941u, 3919488u, 3999768u, 4079782u, 4159533u, 4239023u,
    4318251u, 4397222u, 4475935u, 4554394u, 4632599u, 4710552u, 4788255u, 4865709u, 4942916u, 5019878u,
    5096595u, 5173071u, 5249305u, 5325300u, 5401057u, 5476578u, 5551864u, 5626916u, 5701737u, 5776327u,
    5850688u, 5924821u, 5998727u, 6072409u, 6145867u, 6219103u, 6292118u, 6364913u, 6437490u, 6509850u,
    6581994u, 6653924u, 6725641u, 6797146u, 6868440u, 6939525u, 7010402u, 7081072u, 7151536u, 7221795u,
    7291852u, 7361706u, 7431359u, 7500812u, 7570066u, 7639123u, 7707984u, 7776649u, 7845119u, 7913397u,
    7981483u, 8049377u, 8117082u, 8184598u, 8251926u, 8319067u, 8386022u, 8452793u, 8519380u, 8585785u,
    8652008u, 8718050u, 8783912u, 8849596u, 8915102u, 8980431u, 9045584u, 9110562u, 9175366u, 9239998u,
    9304457u, 9368745u, 9432863u, 9496811u, 9560591u, 9624203u, 9687648u, 9750928u, 9814042u, 9876993u,
    9939780u, 10002404u, 10064867u, 10127170u, 10189312u, 10251295u, 10313120u, 10374787u, 10436298u, 10497652u,
    10558852u, 10619897u, 10680789u, 10741528u, 10802114u, 10862550u, 10922835u, 10982970u, 11042956u, 11102794u,
    11162484u, 11222028u, 11281425u, 11340677u, 11399784u, 11458748u, 11517568u, 11576245u, 11634780u, 11693175u,
    11751428u, 11809542u, 11867517u, 11925353u, 11983051u, 12040612u, 12098037u, 12155325u, 12212479u, 12269497u,
    12326382u, 12383133u, 12439752u, 12496238u, 12552593u, 12608817u, 12664911u, 12720875u, 12776710u, 12832416u,
    12887994u, 12943445u, 12998770u, 13053968u, 13109041u, 13163988u, 13218811u, 13273511u, 13328087u, 13382540u,
    13436871u, 13491080u, 13545168u, 13599135u, 13652983u, 13706711u, 13760320u, 13813810u, 13867183u, 13920438u,
    13973576u, 14026597u, 14079503u, 14132294u, 14184969u, 14237530u, 14289978u, 14342312u, 14394532u, 14446641u,
    14498638u, 14550523u, 14602297u, 14653961u, 14705514u, 14756958u, 14808293u, 14859519u, 14910637u, 14961648u,
    15012551u, 15063347u, 15114037u, 15164621u, 15215099u, 15265473u, 15315742u, 15365906u, 15415967u, 15465925u,
    15515779u, 15565531u, 15615181u, 15664730u, 15714177u, 15763523u, 15812769u, 15861915u, 15910962u, 15959909u,
    16008758u, 16057508u, 16106160u, 16154714u, 16203172u, 16251532u, 16299796u, 16347964u, 16396036u, 16444013u,
    16491896u, 16539683u, 16587377u, 16634976u, 16682482u, 16729896u, 16777216u
};

/* 2^-d in Q30, for d below 32 in Q16. */
static uint32_t blrc_head_exp2(uint32_t d)
{
    BLRC_TABLE(uint32_t) const at = BLRC_SKIP(uint32_t, BLRC_FAR(blrc_head_exp2_table), (d >> 8) & 255u);

    const uint32_t from = BLRC_READ(uint32_t, at, 0), to = BLRC_READ(uint32_t, at, 1);

    return (from - (((from - to) * (d & 255u) + 128u) >> 8)) >> (d >> 16);
}

/* log2(total / 2^30) in Q16, for total at least 2^30. */
static uint32_t blrc_head_log2(uint64_t total)
{
    BLRC_TABLE(uint32_t) at;
    uint32_t power = 0, mantissa, fraction, from, to;

    while (total >> 31 != 0) {
        total >>= 1; /* bits that fall off one by one are those that fall off at once */
        ++power;
    }
    mantissa = (uint32_t)total & (((uint32_t)1 << 30) - 1); /* bit 30 is the leading one */
    at = BLRC_SKIP(uint32_t, BLRC_FAR(blrc_head_log2_table), mantissa >> 22);
    from = BLRC_READ(uint32_t, at, 0);
    to = BLRC_READ(uint32_t, at, 1);
    fraction = from + (uint32_t)(((uint64_t)(to - from) * ((mantissa >> 6) & 0xFFFFu)) >> 16);
    return (power << 16) + ((fraction + 128u) >> 8);
}

/* d of a class, from how far its score lies behind the largest. */
static uint32_t blrc_head_behind(uint32_t lag, uint32_t multiplier, int32_t shift)
{
    const uint64_t half = ((uint64_t)1 << shift) >> 1;
    const uint64_t d = ((uint64_t)lag * multiplier + half) >> shift;

    return d < BLRC_HEAD_CAP ? (uint32_t)d : BLRC_HEAD_CAP;
}

void blrc_head_add(int32_t classes, uint32_t multiplier, int32_t shift, const int32_t *scores, int32_t *log_p,
                   uint32_t *p, uint64_t *p_squared)
{
    const uint32_t most = (uint32_t)scores[blrc_argmax(classes, scores)];
    uint64_t total = 0;
    uint32_t log_total;
    int32_t c;

    /* d is computed twice, so that no memory is needed for it. */
    for (c = 0; c < classes; ++c) {
        total += blrc_head_exp2(blrc_head_behind(most - (uint32_t)scores[c], multiplier, shift));
    }
    log_total = blrc_head_log2(total);
    for (c = 0; c < classes; ++c) {
        const uint32_t bits = blrc_head_behind(most - (uint32_t)scores[c], multiplier, shift) + log_total;
        const uint32_t against = bits < BLRC_HEAD_FLOOR ? bits : BLRC_HEAD_FLOOR;
        const uint32_t probability = (blrc_head_exp2(against) + ((uint32_t)1 << 13)) >> 14;

        log_p[c] -= (int32_t)against;
        p[c] += probability;
        p_squared[c] += (uint64_t)probability * probability;
    }
}

uint32_t blrc_head_mean(uint32_t members, uint32_t p)
{
    return p / members;
}

uint32_t blrc_head_variance(uint32_t members, uint32_t p, uint64_t p_squared)
{
    /* Bit by bit: a compiler's division of 64-bit integers takes more flash and stack than all of this file's code. The
     * variance is at most 2^30, and the divisor below 2^21, since sums of log p have room for 1,365 members. */
    uint64_t rest = members * p_squared - (uint64_t)p * p;
    uint64_t part = ((uint64_t)members * members) << 30;
    uint32_t variance = 0;
    int32_t bit;

    for (bit = 30; bit >= 0; --bit) {
        variance <<= 1;
        if (rest >= part) {
            rest -= part;
            variance |= 1u;
        }
        part >>= 1;
    }
    return variance;
}

int32_t blrc_head_settled(int32_t classes, uint32_t remaining, const int32_t *log_p)
{
    const int32_t label = blrc_argmax(classes, log_p);
    int32_t c;

    for (c = 0; c < classes; ++c) {
        const uint32_t lead = (uint32_t)log_p[label] - (uint32_t)log_p[c];

        /* The first maximum wins: over an earlier class the lead must be larger, over a later one as large. */
        if (c != label && lead < remaining * BLRC_HEAD_FLOOR + (c < label ? 1u : 0u)) {
            return 0;
        }
    }
    return 1;
}
