# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy.traced import tiledb_update
from chronotile_ksy.traced import tiledb_generic_tile
import collections
import zlib


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbUpdateCommit(KaitaiStruct):
    """A `.upd` file: one tile that holds the condition of an update, negated, and
    the values that it sets.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/update_commit_file.md
    """
    SEQ_FIELDS = ["tile", "opened"]
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbUpdateCommit, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._debug = collections.defaultdict(dict)

    def _read(self):
        self._debug['tile']['start'] = self._io.pos()
        self.tile = tiledb_generic_tile.TiledbGenericTile(self._io)
        self.tile._read()
        self._debug['tile']['end'] = self._io.pos()
        if  ((self.tile.is_one_zlib_stream) and (self.update.condition.level < 0)) :
            pass
            self._debug['opened']['start'] = self._io.pos()
            self.opened = self._io.read_bytes(0)
            self._debug['opened']['end'] = self._io.pos()



    def _fetch_instances(self):
        pass
        self.tile._fetch_instances()
        if  ((self.tile.is_one_zlib_stream) and (self.update.condition.level < 0)) :
            pass

        _ = self.update
        if hasattr(self, '_m_update'):
            pass
            self._m_update._fetch_instances()


    @property
    def update(self):
        """The inflated payload, where the tile is one zlib stream. Inflating is not
        bounded here: a program checks the sizes first.
        """
        if hasattr(self, '_m_update'):
            return self._m_update

        if self.tile.is_one_zlib_stream:
            pass
            io = self.tile.tile.chunks[0].filtered._io
            _pos = io.pos()
            io.seek(0)
            self._debug['_m_update']['start'] = io.pos()
            self._raw__raw__m_update = io.read_bytes_full()
            self._raw__m_update = zlib.decompress(self._raw__raw__m_update)
            _io__raw__m_update = KaitaiStream(BytesIO(self._raw__m_update))
            self._m_update = tiledb_update.TiledbUpdate(_io__raw__m_update)
            self._m_update._read()
            self._debug['_m_update']['end'] = io.pos()
            io.seek(_pos)

        return getattr(self, '_m_update', None)


