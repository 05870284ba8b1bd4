"""Learn a spiral and noisy pictures with and without sharpness-aware learning, and write a page about it.

    make demo

prints a table for each and writes `demo/report.html`. With `--quick` models are tiny, to try out the page.
"""

import argparse

from flatpc.pages.demo import run

parser = argparse.ArgumentParser(description="The demo of flatpc.")
parser.add_argument("--folder", default="demo", help="where the page and the models go (default: demo)")
parser.add_argument("--quick", action="store_true", help="tiny models, to try out the page")

if __name__ == "__main__":
    options = parser.parse_args()
    run(options.folder, quick=options.quick)
