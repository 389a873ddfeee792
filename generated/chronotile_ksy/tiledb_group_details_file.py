# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy import tiledb_group_details
from chronotile_ksy import tiledb_generic_tile
import zlib


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbGroupDetailsFile(KaitaiStruct):
    """A file in `__group`: one tile that holds the members of a group as one session
    left them.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/group.md
    """
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbGroupDetailsFile, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.tile = tiledb_generic_tile.TiledbGenericTile(self._io)
        if  ((self.tile.is_one_zlib_stream) and (self.details.num_members < 0)) :
            pass
            self.opened = self._io.read_bytes(0)



    def _fetch_instances(self):
        pass
        self.tile._fetch_instances()
        if  ((self.tile.is_one_zlib_stream) and (self.details.num_members < 0)) :
            pass

        _ = self.details
        if hasattr(self, '_m_details'):
            pass
            self._m_details._fetch_instances()


    @property
    def details(self):
        """The inflated payload, where the tile is one zlib stream. Inflating is not
        bounded here: a program checks the sizes first.
        """
        if hasattr(self, '_m_details'):
            return self._m_details

        if self.tile.is_one_zlib_stream:
            pass
            io = self.tile.tile.chunks[0].filtered._io
            _pos = io.pos()
            io.seek(0)
            self._raw__raw__m_details = io.read_bytes_full()
            self._raw__m_details = zlib.decompress(self._raw__raw__m_details)
            _io__raw__m_details = KaitaiStream(BytesIO(self._raw__m_details))
            self._m_details = tiledb_group_details.TiledbGroupDetails(_io__raw__m_details)
            io.seek(_pos)

        return getattr(self, '_m_details', None)


