"""Chip records: what a chip can do at most, each figure with its source and how far that is to be trusted.

A record is read from one TOML file of hardware/catalog, or made in the admin, and is frozen with every run that used
it. Figures are in the units of their names.

    figures      the units and their bounds            parts        memory, links, systems, efficiency
    claims       what is claimed, apart from all else  sources      where a figure is from
    speculation  stand-ins for what is not disclosed   record       the whole, and its rules
    catalog      reading the files                     running      the record that a run is modelled with
    units        which units compute a format
"""

from runners.chips.catalog import CATALOG_DIR, CatalogError, RecordError, load_catalog, load_record, read_record
from runners.chips.claims import Claim, ClaimTest
from runners.chips.parts import Efficiency, Format, Interconnect, Memory, Ownership, Part, System
from runners.chips.record import ChipRecord
from runners.chips.running import NotModellable, band_of, in_sram, record_for_run, refuse_architecture, run_facts
from runners.chips.single import one_chip
from runners.chips.sources import FigureSource, Remark
from runners.chips.speculation import Speculation
from runners.chips.units import attention_flops, linear_flops, linear_units, takes_as_they_lie

__all__ = [
    "CATALOG_DIR",
    "CatalogError",
    "ChipRecord",
    "Claim",
    "ClaimTest",
    "Efficiency",
    "FigureSource",
    "Format",
    "Interconnect",
    "Memory",
    "NotModellable",
    "Ownership",
    "Part",
    "RecordError",
    "Remark",
    "Speculation",
    "System",
    "attention_flops",
    "band_of",
    "in_sram",
    "linear_flops",
    "linear_units",
    "load_catalog",
    "load_record",
    "one_chip",
    "read_record",
    "record_for_run",
    "refuse_architecture",
    "run_facts",
    "takes_as_they_lie",
]
