"""From configuration keys to RocksDB's options."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from rocksdict import Options

from tidemill.common.configuration import Configuration
from tidemill.datastream.state_backend import EmbeddedRocksDBStateBackend, PredefinedOptions
from tidemill.errors import ConfigurationError
from tidemill.state.rocksdb import RocksDBSettings, settings

MB = 1 << 20


def of(**keys: Any) -> RocksDBSettings:
    """Settings of keys below ``state.backend.rocksdb``, with two underscores for a dot and one for a dash."""
    configuration = Configuration()
    for name, value in keys.items():
        key = name.replace("__", ".").replace("_", "-")
        configuration.set_string(f"state.backend.rocksdb.{key}", value)
    return RocksDBSettings.of(configuration)


def test_the_defaults_are_the_defaults() -> None:
    assert of() == RocksDBSettings()
    of().options()


def test_every_choice_makes_options() -> None:
    for name in ("DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"):
        of(predefined_options=name).options()
    for style in ("LEVEL", "UNIVERSAL", "NONE"):
        of(compaction__style=style).options()
    of(memory__managed="false").options()
    of(memory__partitioned_index_filters="true", use_bloom_filter="false").options()


def test_what_is_set_wins_over_what_is_predefined() -> None:
    both = of(predefined_options="SPINNING_DISK_OPTIMIZED_HIGH_MEM", block__blocksize="16 kb")
    assert (both.block_size, both.write_buffers, both.threads) == (16 << 10, 4, 4)


def test_memory() -> None:
    assert of().memory == 128 * MB
    assert of(memory__fixed_per_slot="64 mb").memory == 64 * MB
    assert of(memory__managed="false").memory == 0
    assert of(memory__managed="false", memory__fixed_per_slot="64 mb").memory == 64 * MB


def test_all_stores_of_a_process_share_one_memory() -> None:
    assert settings._memory(77 * MB, 0.5)[0] is settings._memory(77 * MB, 0.5)[0]
    assert settings._memory(77 * MB, 0.5)[1].get_buffer_size() == 77 * MB // 2


def test_directories() -> None:
    assert of(localdir="/a, /b").directories == ("/a", "/b")
    assert RocksDBSettings.of(Configuration().set_string("io.tmp.dirs", "/t")).directories == ("/t",)
    assert of(localdir__choice="least-used").choice == "LEAST_USED"


def test_settings_travel() -> None:
    assert pickle.loads(pickle.dumps(of(localdir="/a"))) == of(localdir="/a")


class SmallFiles:
    """A factory of a user's own."""

    def create_options(self, options: Options) -> Options:
        options.set_target_file_size_base(123)
        return options


class NoFactory:
    """Not a factory."""


def test_a_factory_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Options] = []
    create = SmallFiles.create_options

    def noted(self: SmallFiles, options: Options) -> Options:
        seen.append(options)
        return create(self, options)

    monkeypatch.setattr(SmallFiles, "create_options", noted)
    of(options_factory=f"{__name__}.SmallFiles").options()
    assert [type(options) for options in seen] == [Options]


@pytest.mark.parametrize("name", ["nowhere.Factory", f"{__name__}.Missing", f"{__name__}.NoFactory", "Factory"])
def test_a_factory_that_is_none(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"options-factory.*create_options"):
        of(options_factory=name)


def test_the_public_class_writes_what_is_read_here() -> None:
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths("/a", "/b")
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    backend.set_options(f"{__name__}.SmallFiles")
    configuration = Configuration()
    backend.apply(configuration)
    found = RocksDBSettings.of(configuration)
    assert (found.directories, found.threads) == (("/a", "/b"), 4)
    assert found.options_factory == f"{__name__}.SmallFiles"
