"""The benchmark that compares what is written by hand with libraries: they agree, and the table is complete."""

from benchmarks import libraries


def test_libraries_agree_with_what_is_written_by_hand(monkeypatch):
    monkeypatch.setattr(libraries, "REPETITIONS", 1)
    wavelets, similarities = libraries.wavelets(64, 1), libraries.similarity(32, 2)
    assert [name for name, *_ in wavelets] == ["promask", "PyWavelets", "sigpy", "a Fourier transform and back"]
    assert len(similarities) == 5
    for _, taken, difference, _ in wavelets + similarities:
        assert taken > 0
        assert difference < 1e-5
