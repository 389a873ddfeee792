# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy.traced import tiledb_condition
from chronotile_ksy.traced import tiledb_generic_tile
import collections
import zlib


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbDeleteCommit(KaitaiStruct):
    """A `.del` file: one tile that holds the condition of a delete, negated. The
    rows that satisfy it stay; all others written at or before it are gone.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/delete_commit_file.md
    """
    SEQ_FIELDS = ["tile", "opened"]
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbDeleteCommit, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._debug = collections.defaultdict(dict)

    def _read(self):
        self._debug['tile']['start'] = self._io.pos()
        self.tile = tiledb_generic_tile.TiledbGenericTile(self._io)
        self.tile._read()
        self._debug['tile']['end'] = self._io.pos()
        if  ((self.tile.is_one_zlib_stream) and (self.condition.root.level < 0)) :
            pass
            self._debug['opened']['start'] = self._io.pos()
            self.opened = self._io.read_bytes(0)
            self._debug['opened']['end'] = self._io.pos()



    def _fetch_instances(self):
        pass
        self.tile._fetch_instances()
        if  ((self.tile.is_one_zlib_stream) and (self.condition.root.level < 0)) :
            pass

        _ = self.condition
        if hasattr(self, '_m_condition'):
            pass
            self._m_condition._fetch_instances()


    @property
    def condition(self):
        """The inflated payload, where the tile is one zlib stream. Inflating is not
        bounded here: a program checks the sizes first.
        """
        if hasattr(self, '_m_condition'):
            return self._m_condition

        if self.tile.is_one_zlib_stream:
            pass
            io = self.tile.tile.chunks[0].filtered._io
            _pos = io.pos()
            io.seek(0)
            self._debug['_m_condition']['start'] = io.pos()
            self._raw__raw__m_condition = io.read_bytes_full()
            self._raw__m_condition = zlib.decompress(self._raw__raw__m_condition)
            _io__raw__m_condition = KaitaiStream(BytesIO(self._raw__m_condition))
            self._m_condition = tiledb_condition.TiledbCondition(_io__raw__m_condition)
            self._m_condition._read()
            self._debug['_m_condition']['end'] = io.pos()
            io.seek(_pos)

        return getattr(self, '_m_condition', None)


