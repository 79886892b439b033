#include "cli.h"
int cli_dlt(int argc, char **argv) { (void)argc; return cli_usage(argv[0], "", "x"); }
