# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy import tiledb_array_schema
from chronotile_ksy import tiledb_generic_tile
from chronotile_ksy import tiledb_datatype
from enum import IntEnum
import zlib


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbFragmentMetadata(KaitaiStruct):
    """A file `__fragment_metadata.tdb`: generic tiles one after the other, a footer
    that says where each of them starts, and the footer's length. Before version
    10 the length is there only if a dimension varies in length; versions 1 and 2
    have no footer, and one tile.
    
    The footer cannot be read alone: how many fields it has and how wide they are
    stands in the schema that it names. So this spec frames the file, and shows
    each tile and the footer's head. A program that has the schema reads the rest
    with the types that take parameters: `fragment_footer`, `r_tree` and
    `fragment_statistics`; and the other tiles with `tile_numbers`, `tile_bounds`
    and `processed_conditions`.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md
    """

    class SectionTypes(IntEnum):
        tile_global_order = 0
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbFragmentMetadata, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.tiles = []
        i = 0
        while True:
            _ = TiledbFragmentMetadata.MetadataTile(self._io, self, self._root)
            self.tiles.append(_)
            if (not (_.is_followed_by_tile)):
                break
            i += 1
        _on = self._io.is_eof()
        if _on == False:
            pass
            self.footer = TiledbFragmentMetadata.FramedFooter(self._io, self, self._root)
        elif _on == True:
            pass
            self.footer = TiledbFragmentMetadata.NoFooter(self._io, self, self._root)


    def _fetch_instances(self):
        pass
        for i in range(len(self.tiles)):
            pass
            self.tiles[i]._fetch_instances()

        _on = self._io.is_eof()
        if _on == False:
            pass
            self.footer._fetch_instances()
        elif _on == True:
            pass
            self.footer._fetch_instances()

    class BoundingBox(KaitaiStruct):
        """The least and the largest coordinates, dimension by dimension.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#mbr
        """
        def __init__(self, len_coordinates, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.BoundingBox, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.len_coordinates = len_coordinates
            self._read()

        def _read(self):
            self.ranges = []
            for i in range(len(self.len_coordinates)):
                self.ranges.append(tiledb_array_schema.TiledbArraySchema.DimensionRange(KaitaiStream.byte_array_index(self.len_coordinates, i), self._io))



        def _fetch_instances(self):
            pass
            for i in range(len(self.ranges)):
                pass
                self.ranges[i]._fetch_instances()



    class ConsolidatedFooters(KaitaiStruct):
        """The payload of a `.meta` file: the footers of many fragments, without the
        length behind each, and where each of them starts in this payload.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_fragment_metadata_file.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.ConsolidatedFooters, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.num_fragments = self._io.read_u4le()
            if not self.num_fragments <= (self._io.size() - self._io.pos()) // 16:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 16, self.num_fragments, self._io, u"/types/consolidated_footers/seq/0")
            self.fragments = []
            for i in range(self.num_fragments):
                self.fragments.append(TiledbFragmentMetadata.ConsolidatedFragment(self._io, self, self._root))

            self.footers = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass
            for i in range(len(self.fragments)):
                pass
                self.fragments[i]._fetch_instances()



    class ConsolidatedFragment(KaitaiStruct):
        """A fragment, and where its footer starts.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/consolidated_fragment_metadata_file.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.ConsolidatedFragment, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.len_name = self._io.read_u8le()
            if not self.len_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_name, self._io, u"/types/consolidated_fragment/seq/0")
            self.name = (self._io.read_bytes(self.len_name)).decode(u"UTF-8")
            self.ofs_footer = self._io.read_u8le()
            if not self.ofs_footer <= self._io.size():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size(), self.ofs_footer, self._io, u"/types/consolidated_fragment/seq/2")


        def _fetch_instances(self):
            pass
            _ = self.head
            if hasattr(self, '_m_head'):
                pass
                self._m_head._fetch_instances()


        @property
        def head(self):
            if hasattr(self, '_m_head'):
                return self._m_head

            _pos = self._io.pos()
            self._io.seek(self.ofs_footer)
            self._m_head = TiledbFragmentMetadata.FooterHead(self._io, self, self._root)
            self._io.seek(_pos)
            return getattr(self, '_m_head', None)


    class FieldStatistics(KaitaiStruct):
        """The least and the largest value of a field, their sum, and its NULLs.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-fragment-min-max-sum-null-count
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.FieldStatistics, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.len_least = self._io.read_u8le()
            if not self.len_least <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_least, self._io, u"/types/field_statistics/seq/0")
            self.least = self._io.read_bytes(self.len_least)
            self.len_largest = self._io.read_u8le()
            if not self.len_largest <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_largest, self._io, u"/types/field_statistics/seq/2")
            self.largest = self._io.read_bytes(self.len_largest)
            self.sum = self._io.read_u8le()
            self.num_nulls = self._io.read_u8le()


        def _fetch_instances(self):
            pass


    class FooterHead(KaitaiStruct):
        """What can be told of a footer without its schema.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#footer
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.FooterHead, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.version = self._io.read_u4le()
            if not self.version >= 3:
                raise kaitaistruct.ValidationLessThanError(3, self.version, self._io, u"/types/footer_head/seq/0")
            if not self.version <= 23:
                raise kaitaistruct.ValidationGreaterThanError(23, self.version, self._io, u"/types/footer_head/seq/0")
            if self.version >= 10:
                pass
                self.len_schema_name = self._io.read_u8le()
                if not self.len_schema_name <= self._io.size() - self._io.pos():
                    raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_schema_name, self._io, u"/types/footer_head/seq/1")

            if self.version >= 10:
                pass
                self.schema_name = (self._io.read_bytes(self.len_schema_name)).decode(u"UTF-8")

            self.dense = self._io.read_u1()
            if not self.dense <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.dense, self._io, u"/types/footer_head/seq/3")
            self.null_domain = self._io.read_u1()
            if not self.null_domain <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.null_domain, self._io, u"/types/footer_head/seq/4")


        def _fetch_instances(self):
            pass
            if self.version >= 10:
                pass

            if self.version >= 10:
                pass


        @property
        def is_dense(self):
            if hasattr(self, '_m_is_dense'):
                return self._m_is_dense

            self._m_is_dense = self.dense != 0
            return getattr(self, '_m_is_dense', None)

        @property
        def is_null_domain(self):
            if hasattr(self, '_m_is_null_domain'):
                return self._m_is_null_domain

            self._m_is_null_domain = self.null_domain != 0
            return getattr(self, '_m_is_null_domain', None)

        @property
        def len_head(self):
            """Bytes of all this."""
            if hasattr(self, '_m_len_head'):
                return self._m_len_head

            self._m_len_head = (14 + self.len_schema_name if self.version >= 10 else 6)
            return getattr(self, '_m_len_head', None)


    class FooterSection(KaitaiStruct):
        """An optional part of a footer. A reader passes over a type that it does not
        know.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#optional-section
        """
        def __init__(self, num_dimensions, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.FooterSection, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.num_dimensions = num_dimensions
            self._read()

        def _read(self):
            self.section_type = KaitaiStream.resolve_enum(TiledbFragmentMetadata.SectionTypes, self._io.read_u8le())
            self.len_data = self._io.read_u4le()
            if not self.len_data >= (16 * self.num_dimensions if self.section_type == TiledbFragmentMetadata.SectionTypes.tile_global_order else 0):
                raise kaitaistruct.ValidationLessThanError((16 * self.num_dimensions if self.section_type == TiledbFragmentMetadata.SectionTypes.tile_global_order else 0), self.len_data, self._io, u"/types/footer_section/seq/1")
            if not self.len_data <= (16 * self.num_dimensions if self.section_type == TiledbFragmentMetadata.SectionTypes.tile_global_order else self._io.size() - self._io.pos()):
                raise kaitaistruct.ValidationGreaterThanError((16 * self.num_dimensions if self.section_type == TiledbFragmentMetadata.SectionTypes.tile_global_order else self._io.size() - self._io.pos()), self.len_data, self._io, u"/types/footer_section/seq/1")
            _on = self.section_type
            if _on == TiledbFragmentMetadata.SectionTypes.tile_global_order:
                pass
                self._raw_data = self._io.read_bytes(self.len_data)
                _io__raw_data = KaitaiStream(BytesIO(self._raw_data))
                self.data = TiledbFragmentMetadata.TileGlobalOrder(self.num_dimensions, _io__raw_data, self, self._root)
            else:
                pass
                self._raw_data = self._io.read_bytes(self.len_data)
                _io__raw_data = KaitaiStream(BytesIO(self._raw_data))
                self.data = TiledbFragmentMetadata.UnknownSection(_io__raw_data, self, self._root)


        def _fetch_instances(self):
            pass
            _on = self.section_type
            if _on == TiledbFragmentMetadata.SectionTypes.tile_global_order:
                pass
                self.data._fetch_instances()
            else:
                pass
                self.data._fetch_instances()


    class FragmentFooter(KaitaiStruct):
        """The whole footer. `len_coordinates` has a byte for each dimension: the
        length of a coordinate, or 0 where coordinates vary in length.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#footer
        """
        def __init__(self, num_attributes, len_coordinates, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.FragmentFooter, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.num_attributes = num_attributes
            self.len_coordinates = len_coordinates
            self._read()

        def _read(self):
            self.head = TiledbFragmentMetadata.FooterHead(self._io, self, self._root)
            if (not (self.head.is_null_domain)):
                pass
                self.ranges = []
                for i in range(len(self.len_coordinates)):
                    self.ranges.append(tiledb_array_schema.TiledbArraySchema.DimensionRange(KaitaiStream.byte_array_index(self.len_coordinates, i), self._io))


            self.num_tiles = self._io.read_u8le()
            self.num_last_cells = self._io.read_u8le()
            if self.head.version >= 14:
                pass
                self.timestamps = self._io.read_u1()
                if not self.timestamps <= 1:
                    raise kaitaistruct.ValidationGreaterThanError(1, self.timestamps, self._io, u"/types/fragment_footer/seq/4")

            if self.head.version >= 15:
                pass
                self.delete_metadata = self._io.read_u1()
                if not self.delete_metadata <= 1:
                    raise kaitaistruct.ValidationGreaterThanError(1, self.delete_metadata, self._io, u"/types/fragment_footer/seq/5")

            self.file_sizes = []
            for i in range(self.num_fields):
                self.file_sizes.append(self._io.read_u8le())

            self.var_file_sizes = []
            for i in range(self.num_var_fields):
                self.var_file_sizes.append(self._io.read_u8le())

            if self.head.version >= 7:
                pass
                self.validity_file_sizes = []
                for i in range(self.num_fields):
                    self.validity_file_sizes.append(self._io.read_u8le())


            self.ofs_r_tree = self._io.read_u8le()
            self.ofs_tile_offsets = []
            for i in range(self.num_fields):
                self.ofs_tile_offsets.append(self._io.read_u8le())

            self.ofs_var_tile_offsets = []
            for i in range(self.num_var_fields):
                self.ofs_var_tile_offsets.append(self._io.read_u8le())

            self.ofs_var_tile_sizes = []
            for i in range(self.num_var_fields):
                self.ofs_var_tile_sizes.append(self._io.read_u8le())

            if self.head.version >= 7:
                pass
                self.ofs_validity_tile_offsets = []
                for i in range(self.num_fields):
                    self.ofs_validity_tile_offsets.append(self._io.read_u8le())


            if self.head.version >= 11:
                pass
                self.ofs_tile_minima = []
                for i in range(self.num_fields):
                    self.ofs_tile_minima.append(self._io.read_u8le())


            if self.head.version >= 11:
                pass
                self.ofs_tile_maxima = []
                for i in range(self.num_fields):
                    self.ofs_tile_maxima.append(self._io.read_u8le())


            if self.head.version >= 11:
                pass
                self.ofs_tile_sums = []
                for i in range(self.num_fields):
                    self.ofs_tile_sums.append(self._io.read_u8le())


            if self.head.version >= 11:
                pass
                self.ofs_tile_null_counts = []
                for i in range(self.num_fields):
                    self.ofs_tile_null_counts.append(self._io.read_u8le())


            if self.head.version >= 12:
                pass
                self.ofs_fragment_statistics = self._io.read_u8le()

            if self.head.version >= 16:
                pass
                self.ofs_processed_conditions = self._io.read_u8le()

            if self.head.version >= 23:
                pass
                self.num_sections = self._io.read_u4le()
                if not self.num_sections <= (self._io.size() - self._io.pos()) // 12:
                    raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 12, self.num_sections, self._io, u"/types/fragment_footer/seq/20")

            if self.head.version >= 23:
                pass
                self.sections = []
                for i in range(self.num_sections):
                    self.sections.append(TiledbFragmentMetadata.FooterSection(len(self.len_coordinates), self._io, self, self._root))




        def _fetch_instances(self):
            pass
            self.head._fetch_instances()
            if (not (self.head.is_null_domain)):
                pass
                for i in range(len(self.ranges)):
                    pass
                    self.ranges[i]._fetch_instances()


            if self.head.version >= 14:
                pass

            if self.head.version >= 15:
                pass

            for i in range(len(self.file_sizes)):
                pass

            for i in range(len(self.var_file_sizes)):
                pass

            if self.head.version >= 7:
                pass
                for i in range(len(self.validity_file_sizes)):
                    pass


            for i in range(len(self.ofs_tile_offsets)):
                pass

            for i in range(len(self.ofs_var_tile_offsets)):
                pass

            for i in range(len(self.ofs_var_tile_sizes)):
                pass

            if self.head.version >= 7:
                pass
                for i in range(len(self.ofs_validity_tile_offsets)):
                    pass


            if self.head.version >= 11:
                pass
                for i in range(len(self.ofs_tile_minima)):
                    pass


            if self.head.version >= 11:
                pass
                for i in range(len(self.ofs_tile_maxima)):
                    pass


            if self.head.version >= 11:
                pass
                for i in range(len(self.ofs_tile_sums)):
                    pass


            if self.head.version >= 11:
                pass
                for i in range(len(self.ofs_tile_null_counts)):
                    pass


            if self.head.version >= 12:
                pass

            if self.head.version >= 16:
                pass

            if self.head.version >= 23:
                pass

            if self.head.version >= 23:
                pass
                for i in range(len(self.sections)):
                    pass
                    self.sections[i]._fetch_instances()



        @property
        def has_delete_metadata(self):
            """Whether each cell has the time of its deletion, and its deleter."""
            if hasattr(self, '_m_has_delete_metadata'):
                return self._m_has_delete_metadata

            self._m_has_delete_metadata = (self.delete_metadata != 0 if self.head.version >= 15 else False)
            return getattr(self, '_m_has_delete_metadata', None)

        @property
        def has_timestamps(self):
            """Whether each cell has the time at which it was written."""
            if hasattr(self, '_m_has_timestamps'):
                return self._m_has_timestamps

            self._m_has_timestamps = (self.timestamps != 0 if self.head.version >= 14 else False)
            return getattr(self, '_m_has_timestamps', None)

        @property
        def num_fields(self):
            """Attributes, the coordinates of old, dimensions, times."""
            if hasattr(self, '_m_num_fields'):
                return self._m_num_fields

            self._m_num_fields = (((self.num_attributes + 1) + (len(self.len_coordinates) if self.head.version >= 5 else 0)) + (1 if self.has_timestamps else 0)) + (2 if self.has_delete_metadata else 0)
            return getattr(self, '_m_num_fields', None)

        @property
        def num_var_fields(self):
            if hasattr(self, '_m_num_var_fields'):
                return self._m_num_var_fields

            self._m_num_var_fields = (self.num_fields if self.head.version >= 5 else self.num_attributes)
            return getattr(self, '_m_num_var_fields', None)


    class FragmentStatistics(KaitaiStruct):
        """The payload of the tile that tells of each field, over all tiles.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-fragment-min-max-sum-null-count
        """
        def __init__(self, num_fields, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.FragmentStatistics, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.num_fields = num_fields
            self._read()

        def _read(self):
            self.fields = []
            for i in range(self.num_fields):
                self.fields.append(TiledbFragmentMetadata.FieldStatistics(self._io, self, self._root))



        def _fetch_instances(self):
            pass
            for i in range(len(self.fields)):
                pass
                self.fields[i]._fetch_instances()



    class FramedFooter(KaitaiStruct):
        """A footer, of which all but the head takes a schema to read, and its length
        where there is one.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#footer
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.FramedFooter, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.head = TiledbFragmentMetadata.FooterHead(self._io, self, self._root)
            self.rest = self._io.read_bytes((self._io.size() - self._io.pos()) - self.len_len_footer)
            if self.len_len_footer != 0:
                pass
                self.len_footer = self._io.read_u8le()
                if not self.len_footer == self.head.len_head + len(self.rest):
                    raise kaitaistruct.ValidationNotEqualError(self.head.len_head + len(self.rest), self.len_footer, self._io, u"/types/framed_footer/seq/2")



        def _fetch_instances(self):
            pass
            self.head._fetch_instances()
            if self.len_len_footer != 0:
                pass

            _ = self.last_number
            if hasattr(self, '_m_last_number'):
                pass


        @property
        def last_number(self):
            if hasattr(self, '_m_last_number'):
                return self._m_last_number

            _pos = self._io.pos()
            self._io.seek((self._io.size() - 8 if self._io.size() >= 8 else 0))
            self._m_last_number = self._io.read_u8le()
            self._io.seek(_pos)
            return getattr(self, '_m_last_number', None)

        @property
        def len_len_footer(self):
            """Bytes of the length behind the footer; to be asked right behind the
            head. Before version 10 only the length itself tells whether it is
            there.
            """
            if hasattr(self, '_m_len_len_footer'):
                return self._m_len_len_footer

            self._m_len_len_footer = (8 if  ((self.head.version >= 10) or (self.last_number == ((self._io.size() - self._io.pos()) + self.head.len_head) - 8))  else 0)
            return getattr(self, '_m_len_len_footer', None)


    class MetadataTile(KaitaiStruct):
        """One of the tiles before the footer.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.MetadataTile, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.tile = tiledb_generic_tile.TiledbGenericTile(self._io)


        def _fetch_instances(self):
            pass
            self.tile._fetch_instances()
            _ = self.next_header
            if hasattr(self, '_m_next_header'):
                pass
                self._m_next_header._fetch_instances()

            _ = self.payload
            if hasattr(self, '_m_payload'):
                pass


        @property
        def is_followed_by_tile(self):
            """To be asked right behind the tile."""
            if hasattr(self, '_m_is_followed_by_tile'):
                return self._m_is_followed_by_tile

            self._m_is_followed_by_tile = (self.next_header.is_tile if self._io.size() - self._io.pos() >= 34 else False)
            return getattr(self, '_m_is_followed_by_tile', None)

        @property
        def next_header(self):
            if hasattr(self, '_m_next_header'):
                return self._m_next_header

            if self._io.size() - self._io.pos() >= 34:
                pass
                _pos = self._io.pos()
                self._io.seek(self._io.pos())
                self._m_next_header = TiledbFragmentMetadata.TileHeader(self._io, self, self._root)
                self._io.seek(_pos)

            return getattr(self, '_m_next_header', None)

        @property
        def payload(self):
            """The inflated payload, where the tile is one zlib stream. Inflating is
            not bounded here: a program checks the sizes first.
            """
            if hasattr(self, '_m_payload'):
                return self._m_payload

            if self.tile.is_one_zlib_stream:
                pass
                io = self.tile.tile.chunks[0].filtered._io
                _pos = io.pos()
                io.seek(0)
                self._raw__m_payload = io.read_bytes_full()
                self._m_payload = zlib.decompress(self._raw__m_payload)
                io.seek(_pos)

            return getattr(self, '_m_payload', None)


    class NoFooter(KaitaiStruct):
        """The end of a file of version 1 or 2.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#legacy-fragment-metadata-file
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.NoFooter, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            pass


        def _fetch_instances(self):
            pass


    class ProcessedCondition(KaitaiStruct):
        """A delete, by the path that its own file had in the array.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-processed-conditions
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.ProcessedCondition, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.len_uri = self._io.read_u8le()
            if not self.len_uri <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_uri, self._io, u"/types/processed_condition/seq/0")
            self.uri = (self._io.read_bytes(self.len_uri)).decode(u"UTF-8")


        def _fetch_instances(self):
            pass


    class ProcessedConditions(KaitaiStruct):
        """The payload of the tile that tells which deletes were applied when the
        fragment was made.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-processed-conditions
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.ProcessedConditions, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.num_conditions = self._io.read_u8le()
            if not self.num_conditions <= (self._io.size() - self._io.pos()) // 8:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 8, self.num_conditions, self._io, u"/types/processed_conditions/seq/0")
            self.conditions = []
            for i in range(self.num_conditions):
                self.conditions.append(TiledbFragmentMetadata.ProcessedCondition(self._io, self, self._root))



        def _fetch_instances(self):
            pass
            for i in range(len(self.conditions)):
                pass
                self.conditions[i]._fetch_instances()



    class RTree(KaitaiStruct):
        """The payload of the first tile: boxes around the coordinates of the tiles,
        and boxes around those. The last level has a box for each tile of a sparse
        fragment; a dense fragment has none.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#r-tree
        """
        def __init__(self, version, len_coordinates, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.RTree, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.version = version
            self.len_coordinates = len_coordinates
            self._read()

        def _read(self):
            if self.version < 5:
                pass
                self.num_dimensions = self._io.read_u4le()

            self.fanout = self._io.read_u4le()
            if self.version < 5:
                pass
                self.datatype = KaitaiStream.resolve_enum(tiledb_datatype.TiledbDatatype.Codes, self._io.read_u1())

            self.num_levels = self._io.read_u4le()
            if not self.num_levels <= 64:
                raise kaitaistruct.ValidationGreaterThanError(64, self.num_levels, self._io, u"/types/r_tree/seq/3")
            self.levels = []
            for i in range(self.num_levels):
                self.levels.append(TiledbFragmentMetadata.RTreeLevel(self.len_coordinates, self._io, self, self._root))



        def _fetch_instances(self):
            pass
            if self.version < 5:
                pass

            if self.version < 5:
                pass

            for i in range(len(self.levels)):
                pass
                self.levels[i]._fetch_instances()



    class RTreeLevel(KaitaiStruct):
        """The boxes of one level, from the root on.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#r-tree
        """
        def __init__(self, len_coordinates, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.RTreeLevel, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.len_coordinates = len_coordinates
            self._read()

        def _read(self):
            self.num_boxes = self._io.read_u8le()
            if not self.num_boxes <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.num_boxes, self._io, u"/types/r_tree_level/seq/0")
            self.boxes = []
            for i in range(self.num_boxes):
                self.boxes.append(TiledbFragmentMetadata.BoundingBox(self.len_coordinates, self._io, self, self._root))



        def _fetch_instances(self):
            pass
            for i in range(len(self.boxes)):
                pass
                self.boxes[i]._fetch_instances()



    class TileBounds(KaitaiStruct):
        """The payload of a tile with the least, or the largest, value of each tile
        of a field. Where values vary in length the fixed part has the start of
        each in the other part, as u8. The format's page leaves out the sizes.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-mins-maxes
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.TileBounds, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.len_fixed = self._io.read_u8le()
            if not self.len_fixed <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_fixed, self._io, u"/types/tile_bounds/seq/0")
            self.len_var = self._io.read_u8le()
            if not self.len_var <= (self._io.size() - self._io.pos()) - self.len_fixed:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) - self.len_fixed, self.len_var, self._io, u"/types/tile_bounds/seq/1")
            self.fixed = self._io.read_bytes(self.len_fixed)
            self.var = self._io.read_bytes(self.len_var)


        def _fetch_instances(self):
            pass


    class TileGlobalOrder(KaitaiStruct):
        """Where the tiles start that hold, for each dimension, the coordinates of
        the first and of the last cell of each tile in the global order. Their
        payload is `tile_bounds`. A fragment that is not dense has these tiles
        even if the footer has no section that says where; the page's table of
        the file leaves them out.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-global-order
        """
        def __init__(self, num_dimensions, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.TileGlobalOrder, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.num_dimensions = num_dimensions
            self._read()

        def _read(self):
            self.ofs_first_coordinates = []
            for i in range(self.num_dimensions):
                self.ofs_first_coordinates.append(self._io.read_u8le())

            self.ofs_last_coordinates = []
            for i in range(self.num_dimensions):
                self.ofs_last_coordinates.append(self._io.read_u8le())



        def _fetch_instances(self):
            pass
            for i in range(len(self.ofs_first_coordinates)):
                pass

            for i in range(len(self.ofs_last_coordinates)):
                pass



    class TileHeader(KaitaiStruct):
        """What a tile starts with, or a footer: only one that goes on as a tile does
        is a tile.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/generic_tile.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.TileHeader, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.version = self._io.read_u4le()
            self.len_persisted = self._io.read_u8le()
            self.len_tile = self._io.read_u8le()
            self.datatype = self._io.read_u1()
            self.len_cell = self._io.read_u8le()
            self.encryption_type = self._io.read_u1()
            self.len_filter_pipeline = self._io.read_u4le()


        def _fetch_instances(self):
            pass

        @property
        def is_tile(self):
            """To be asked while the stream is where the header starts."""
            if hasattr(self, '_m_is_tile'):
                return self._m_is_tile

            self._m_is_tile =  ((self.encryption_type <= 1) and (self.len_filter_pipeline >= 8) and (self.len_filter_pipeline <= 65536) and (self.len_persisted >= 8) and (self.len_persisted <= ((self._io.size() - self._io.pos()) - 34) - self.len_filter_pipeline)) 
            return getattr(self, '_m_is_tile', None)


    class TileNumbers(KaitaiStruct):
        """The payload of a tile with a number for each tile of a field: where it
        starts in its file, how long its variable part is, the sum of its values
        or how many of them are NULL. A sum is of the kind of its values: signed,
        unsigned or a float of 64 bits.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#tile-offsets
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.TileNumbers, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.num_values = self._io.read_u8le()
            if not self.num_values <= (self._io.size() - self._io.pos()) // 8:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 8, self.num_values, self._io, u"/types/tile_numbers/seq/0")
            self.values = []
            for i in range(self.num_values):
                self.values.append(self._io.read_u8le())



        def _fetch_instances(self):
            pass
            for i in range(len(self.values)):
                pass



    class UnknownSection(KaitaiStruct):
        """A section of a type that is not known, left as it is.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#optional-section
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbFragmentMetadata.UnknownSection, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.raw = self._io.read_bytes_full()


        def _fetch_instances(self):
            pass



