"""Whatever happens to the files of a run, going on with it ends as if nothing had happened, or says what is wrong."""

from pathlib import Path

from tests.conftest import Note
from tests.experiment.damages import NOTICED, SOUND, spoil_all
from turbosvm.data.federated import FederatedData

MOST_SECONDS = 20
"""That going on with a run of a few milliseconds may take, on a busy machine."""


def test_no_damage_to_a_file_passes_in_silence(tiny_data: FederatedData, tmp_path: Path, record_property: Note) -> None:
    tried = list(spoil_all(tiny_data, tmp_path, times=1))
    record_property("tried", len(tried))
    assert [one for one in tried if one.outcome not in SOUND] == []
    assert max(one.seconds for one in tried) < MOST_SECONDS
    assert len(tried) > 300
    assert sum(one.outcome in NOTICED for one in tried) > len(tried) / 2
