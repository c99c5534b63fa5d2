/* A few random graphs in each layout against the reference, for older_cpus.sh: with the instructions of older CPUs
 * test_graph, which has many, would take too long. */
#include "tests/helpers/network/network_check.h"
#include "tests/helpers/test.h"

enum { NETS = 12, COUNT = 5 };

/* Half of them in the layout oneDNN prefers; one on two threads. */
TEST(a_few_graphs_match_the_reference)
{
    static const enum layout layouts[] = { LAYOUT_AUTO, LAYOUT_NHWC, LAYOUT_AUTO, LAYOUT_NCHW };
    for (uint32_t seed = 0; seed < NETS; seed++)
        network_check_net("onednn", network_random_graph(4000 + seed, seed % 2 != 0 ? 0.4f : 0.0f),
                          (struct backend_spec){ .local_max = COUNT, .threads = seed == 0 ? 2 : 1,
                                                 .layout = layouts[seed % 4] }, seed);
}

TESTS_MAIN(NULL, NULL)
