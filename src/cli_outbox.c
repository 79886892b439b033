#include "cli.h"
int cli_outbox(int argc, char **argv) { (void)argc; return cli_usage(argv[0], "", "x"); }
