"""Records a PyTorch program operation by operation; `samebits diff` finds where two runs part.

```python
with samebits_ledger.record("a.jsonl") as recorder:
    for x, y in samebits_ledger.watch(loader):
        loss = criterion(model(x), y)
        recorder.loss(loss)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
```
"""

from samebits_ledger._recorder import Recorder, record, watch

__version__ = "0.1.0"

__all__ = ["Recorder", "__version__", "record", "watch"]
