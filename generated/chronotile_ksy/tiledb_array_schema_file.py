# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy import tiledb_generic_tile
from chronotile_ksy import tiledb_array_schema
import zlib


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbArraySchemaFile(KaitaiStruct):
    """A file in `__schema` (before version 10: `__array_schema.tdb`): one tile that
    holds the schema of the array.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbArraySchemaFile, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.tile = tiledb_generic_tile.TiledbGenericTile(self._io)
        if  ((self.tile.is_one_zlib_stream) and (self.schema.version < 0)) :
            pass
            self.opened = self._io.read_bytes(0)



    def _fetch_instances(self):
        pass
        self.tile._fetch_instances()
        if  ((self.tile.is_one_zlib_stream) and (self.schema.version < 0)) :
            pass

        _ = self.schema
        if hasattr(self, '_m_schema'):
            pass
            self._m_schema._fetch_instances()


    @property
    def schema(self):
        """The inflated payload, where the tile is one zlib stream. Inflating is not
        bounded here: a program checks the sizes first.
        """
        if hasattr(self, '_m_schema'):
            return self._m_schema

        if self.tile.is_one_zlib_stream:
            pass
            io = self.tile.tile.chunks[0].filtered._io
            _pos = io.pos()
            io.seek(0)
            self._raw__raw__m_schema = io.read_bytes_full()
            self._raw__m_schema = zlib.decompress(self._raw__raw__m_schema)
            _io__raw__m_schema = KaitaiStream(BytesIO(self._raw__m_schema))
            self._m_schema = tiledb_array_schema.TiledbArraySchema(_io__raw__m_schema)
            io.seek(_pos)

        return getattr(self, '_m_schema', None)


