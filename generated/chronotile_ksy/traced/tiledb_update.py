# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy.traced import tiledb_update_values
from chronotile_ksy.traced import tiledb_condition
import collections


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbUpdate(KaitaiStruct):
    """The payload of an update commit's tile: which rows stay as they are (the
    negation of what was asked), and what the others are set to.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/update_commit_file.md
    """
    SEQ_FIELDS = ["condition", "values", "trailing"]
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbUpdate, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._debug = collections.defaultdict(dict)

    def _read(self):
        self._debug['condition']['start'] = self._io.pos()
        self.condition = tiledb_condition.TiledbCondition.ConditionNode(1, self._io)
        self.condition._read()
        self._debug['condition']['end'] = self._io.pos()
        self._debug['values']['start'] = self._io.pos()
        self.values = tiledb_update_values.TiledbUpdateValues(self._io)
        self.values._read()
        self._debug['values']['end'] = self._io.pos()
        self._debug['trailing']['start'] = self._io.pos()
        self.trailing = self._io.read_bytes_full()
        self._debug['trailing']['end'] = self._io.pos()
        if not self.trailing == b"":
            raise kaitaistruct.ValidationNotEqualError(b"", self.trailing, self._io, u"/seq/2")


    def _fetch_instances(self):
        pass
        self.condition._fetch_instances()
        self.values._fetch_instances()


